/** For `sluice work`: a CommonJS module that exports one handler. */
module.exports = async ({ id }, { tx }) => {
  await tx.query('INSERT INTO effect (message_id) VALUES ($1)', [id])
}
