export const handlers = { jobs: async () => undefined }
