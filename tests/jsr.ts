// Writes build/jsr, from where `deno publish` takes the package for JSR.
import { writeJsrTree } from "./jsr_tree.ts";

console.log(`${writeJsrTree("build/jsr").length} files in build/jsr`);
