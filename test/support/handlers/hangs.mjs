// Never loads, and keeps the process alive.
process.stderr.write('loading\n')
await new Promise(() => void setInterval(() => undefined, 1_000))
