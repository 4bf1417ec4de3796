// Build products that the bundler inlines: wasm and deflated data as bytes, the worker's source as text.
declare module "*.wasm" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}
declare module "*.txt" {
  const text: string;
  export default text;
}
declare module "*.deflate" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}
