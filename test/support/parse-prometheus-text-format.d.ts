declare module 'parse-prometheus-text-format' {
  // biome-ignore lint/style/noDefaultExport: that is how the package exports it.
  export default function parse(text: string): unknown[]
}
