// The version of the package that the command lies in.

import { readFileSync } from "node:fs";

/** As in package.json. */
export function packageVersion(): string {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
