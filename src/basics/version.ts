/** This package's version. A test holds it to `package.json`, which a bundled application does not have beside it. */
export const VERSION = '0.1.0'
