/** What handlers write, in a table of the application that is none of the contestants'. */
export const CREATE_EFFECTS = `
CREATE SCHEMA bench;
CREATE TABLE bench.effect (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  message text NOT NULL
);`

export const INSERT_EFFECT = 'INSERT INTO bench.effect (message) VALUES ($1)'

export const INSERT_EFFECTS = 'INSERT INTO bench.effect (message) SELECT unnest($1::text[])'
