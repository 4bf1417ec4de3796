// The version of the package, for whatever must not outlive it.

/** As in package.json. */
export const VERSION = "0.1.0";
