// A page in the browser: a function of the Fetch API, and a server for one person on this machine.

export { type DashboardHandler, dashboard } from './dashboard.ts'
export type { Authorize, DashboardOptions, Viewer } from './options.ts'
export { type ServedDashboard, type ServeOptions, serveDashboard } from './serve.ts'
export type { Mask } from './view/json.ts'
