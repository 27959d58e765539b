// Queues over HTTP, for programs in any language: a function of the Fetch API.

// What is asked about each request
export type { Authorize, HttpAccess, HttpAction } from './http/authorize.ts'
export { createHttpHandler, type HttpHandler, type HttpHandlerOptions } from './http/handler.ts'
