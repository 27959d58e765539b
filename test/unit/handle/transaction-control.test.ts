import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { transactionControlIn } from '../../../src/handle/transaction/transaction-control.ts'

describe('control of the transaction is found', () => {
  test.each([
    ['BEGIN', 'BEGIN'],
    ['begin work', 'BEGIN'],
    ['BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE', 'BEGIN'],
    ['START TRANSACTION READ ONLY', 'START TRANSACTION'],
    ['start\n\ttransaction', 'START TRANSACTION'],
    ['COMMIT', 'COMMIT'],
    ['Commit Work', 'COMMIT'],
    ['COMMIT TRANSACTION', 'COMMIT'],
    ['COMMIT AND CHAIN', 'COMMIT'],
    ['END', 'END'],
    ['END TRANSACTION', 'END'],
    ['ROLLBACK', 'ROLLBACK'],
    ['rollback work', 'ROLLBACK'],
    ['ROLLBACK TRANSACTION', 'ROLLBACK'],
    ['ROLLBACK AND NO CHAIN', 'ROLLBACK'],
    ['ABORT', 'ABORT'],
    ['ABORT TRANSACTION', 'ABORT'],
    ["PREPARE TRANSACTION 'foo'", 'PREPARE TRANSACTION'],
    ["COMMIT PREPARED 'foo'", 'COMMIT'],
    ["ROLLBACK PREPARED 'foo'", 'ROLLBACK'],
    ['DISCARD ALL', 'DISCARD ALL'],
  ])('%s', (sql, control) => {
    expect(transactionControlIn(sql)).toBe(control)
    expect(transactionControlIn(` \n${sql} ;`)).toBe(control)
  })

  test.each([
    ['-- done\nCOMMIT'],
    ['-- a carriage return ends a comment, too\rCOMMIT'],
    ['/* done */COMMIT'],
    ['/* /* comments nest */ */ COMMIT'],
    ['COMMIT--'],
    ['COMMIT/**/'],
    [';;COMMIT'],
    ['SELECT 1; COMMIT; SELECT 2'],
    ["SELECT 'it''s'; COMMIT"],
    [String.raw`SELECT '\'; COMMIT`],
    [String.raw`SELECT E'\'; SELECT 1'; COMMIT`],
    [String.raw`SELECT date'\'; COMMIT; SELECT ''`],
    [`SELECT E'one'\n'two\\''; COMMIT; SELECT ''`],
    [`SELECT E'one' -- two\n\t-- three\n  '\\'', ''; COMMIT`],
    [`SELECT E'one' '\\'; COMMIT; SELECT ''`],
    [`SELECT 'one'\n'two\\'; COMMIT; SELECT ''`],
    ['SELECT \'one\' -- "two"\n; COMMIT'],
    ['SELECT $$;$$; COMMIT'],
    ['SELECT $a$ $b$ $a$; COMMIT'],
    ['SELECT foo$a$ FROM bar; COMMIT; SELECT b$a$'],
    ['SELECT $1; COMMIT'],
    ['SELECT "a""b"; COMMIT'],
    ['SELECT CASE WHEN a THEN 1 END; COMMIT'],
    ['CREATE TABLE begin (a int); COMMIT'],
    ['CREATE FUNCTION f(begin date) RETURNS int RETURN 1; COMMIT'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; COMMIT'],
    ['CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b); COMMIT'],
    [`CREATE OR REPLACE FUNCTION s.begin() RETURNS int LANGUAGE sql AS 'select 1'; COMMIT`],
    [`CREATE FUNCTION f() RETURNS begin.atomic LANGUAGE sql AS 'select 1'; COMMIT`],
    [`CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = begin, atomic AS 'select 1'; COMMIT`],
    ['CREATE FUNCTION f(begin int, atomic int) RETURNS int RETURN begin - atomic; COMMIT'],
    ['CREATE FUNCTION s.f9() RETURNS int BEGIN ATOMIC SELECT 1 AS case; END; COMMIT'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 case; END; COMMIT'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT t.case FROM t; END; COMMIT'],
    ['CREATE PROCEDURE p() BEGIN ATOMIC END; COMMIT'],
  ])('in %s', (sql) => {
    expect(transactionControlIn(sql)).toBe('COMMIT')
  })

  test.each([
    ['PREPARE plan AS SELECT 1', 'PREPARE'],
    ['prepare plan (integer) as select $1', 'PREPARE'],
    ['DEALLOCATE plan', 'DEALLOCATE'],
    ['DEALLOCATE PREPARE ALL', 'DEALLOCATE'],
  ])('in what changes which statements are prepared: %s', (sql, control) => {
    expect(transactionControlIn(sql)).toBe(control)
  })
})

describe('what is no control passes', () => {
  test.each([
    [''],
    [';'],
    ['SELECT 1'],
    ['ROLLBACK TO mine'],
    ['ROLLBACK TO SAVEPOINT mine'],
    ['ROLLBACK WORK TO SAVEPOINT mine'],
    ['rollback /* to my own */ to mine'],
    ['SAVEPOINT mine'],
    ['RELEASE SAVEPOINT mine'],
    ['SELECT commit, begin, "end" FROM release WHERE rollback = $1'],
    ['SELECT CASE WHEN a THEN 1 ELSE 2 END'],
    ['SELECT CASE WHEN a THEN 1\nEND'],
    ['UPDATE t SET a = CASE b WHEN 1 THEN 2 END WHERE c'],
    ["SELECT 'COMMIT'"],
    ["SELECT '; COMMIT'"],
    [String.raw`SELECT E'\'; COMMIT'`],
    ["SELECT E'it''s; COMMIT'"],
    [`SELECT E'one'\n'two\\'; COMMIT'`],
    ["SELECT 'it''s; COMMIT"],
    ['SELECT $$; COMMIT; $$'],
    ['SELECT $fn$; COMMIT; $$; COMMIT; $fn$'],
    ['SELECT $é$; COMMIT; $é$'],
    ['SELECT 1 AS "x; commit now"'],
    ['SELECT 1 -- ; COMMIT'],
    ['SELECT 1 /* ; COMMIT; /* nested ; */ ; COMMIT */'],
    ['DO $do$ BEGIN PERFORM 1; END $do$'],
    ['SELECT prepare FROM deallocate'],
    ['DISCARD PLANS'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 AS end; SELECT 2; END'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 end; SELECT t.end FROM t; SELECT 2; END'],
    ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT (1) AS end; SELECT CASE WHEN true THEN 1 END; END'],
    ['create or replace procedure p() begin atomic insert into t values (1); end'],
    ['WITH commit AS (SELECT 1) SELECT * FROM commit'],
    ['SET LOCAL lock_timeout = 5; SELECT 1 FOR UPDATE'],
  ])('%s', (sql) => {
    expect(transactionControlIn(sql)).toBeUndefined()
  })
})

describe('with standard_conforming_strings off', () => {
  test.each([
    [String.raw`SELECT '\''; COMMIT; SELECT '\''`, 'COMMIT', undefined],
    [String.raw`SELECT '\'; COMMIT; --'`, undefined, 'COMMIT'],
    [`SELECT 'one'\n'\\'; COMMIT; --'`, undefined, 'COMMIT'],
    [String.raw`SELECT n'\'; COMMIT; --'`, undefined, 'COMMIT'],
    [String.raw`SELECT E'\'; COMMIT; --'`, undefined, undefined],
    [String.raw`SELECT '\\'; COMMIT`, 'COMMIT', 'COMMIT'],
    [String.raw`SELECT b'\'; COMMIT; SELECT x'\'`, 'COMMIT', 'COMMIT'],
    [String.raw`SELECT "\"; COMMIT`, 'COMMIT', 'COMMIT'],
    [String.raw`SELECT $$\$$; COMMIT`, 'COMMIT', 'COMMIT'],
  ])('%s', (sql, off, on) => {
    expect(transactionControlIn(sql, true)).toBe(off)
    expect(transactionControlIn(sql, false)).toBe(on)
  })
})

/** Texts that would be control if they stood outside quotes. */
const controls = fc.constantFrom('COMMIT', 'rollback', 'END', 'Begin', 'ABORT', 'START TRANSACTION', 'DISCARD ALL')
const tricky = fc.constantFrom("'", '"', '\\', '$', '$$', '$a$', ';', '--', '/*', '*/', '\n', ' ', 'é', 'x', '(', ')')
const content = fc.array(fc.oneof(controls, tricky, fc.constant('; ')), { maxLength: 8 }).map((parts) => parts.join(''))

const quoted = fc.oneof(
  content.map((text) => `'${text.replaceAll("'", "''")}'`),
  // The comma: a string on a later line, with comments between at most, would go on with it and be read as it is.
  content.map((text) => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}' ,`),
  content.map((text) => `"${text.replaceAll('"', '""')}"`),
  fc.tuple(fc.constantFrom('', 'a', 'fn_1'), content).map(([tag, text]) => {
    const quote = `$${tag}$`
    return `${quote}${text.replaceAll('$', '')}${quote}`
  }),
  content.map(
    (text) =>
      `/* ${text
        .replaceAll('*/', '')
        .replaceAll('/*', '')
        .replace(/[/*]+$/, '')} */`,
  ),
  content.map((text) => `-- ${text.replaceAll('\n', ' ')}\n`),
)
const word = fc.constantFrom('SELECT', 'x', ',', '(1)', '=', 'CASE WHEN a THEN b END', 'FROM', 'commit', '::text')
const statement = fc
  .array(fc.oneof(quoted, quoted, word), { maxLength: 6 })
  .map((parts) => ['SELECT', ...parts].join(' '))

describe('quotes and comments', () => {
  test('make no control of what they hold', () => {
    fc.assert(
      fc.property(fc.array(statement, { maxLength: 3 }), (statements) => {
        expect(transactionControlIn(statements.join(' ; '))).toBeUndefined()
      }),
      { numRuns: 2_000 },
    )
  })

  test('hide no control that stands outside', () => {
    fc.assert(
      fc.property(fc.array(statement, { maxLength: 3 }), controls, statement, (before, hidden, after) => {
        const sql = [...before, hidden, after].join(' ; ')
        expect(transactionControlIn(sql)).toBe(hidden.toUpperCase())
      }),
      { numRuns: 2_000 },
    )
  })

  test('of a megabyte are read in no time', () => {
    const megabyte = "it''s; COMMIT\\n ".repeat(70_000)
    // Of the processor: the machine may be busy.
    const before = process.cpuUsage()
    expect(
      transactionControlIn(`INSERT INTO t VALUES ('${megabyte}', E'${megabyte}', $$${megabyte}$$)`),
    ).toBeUndefined()
    expect(transactionControlIn(`INSERT INTO t VALUES ('${megabyte}`)).toBeUndefined()
    for (const start of ["E'", "'", "E'x'\n'"])
      expect(transactionControlIn(`COMMIT ${start}${"\\'".repeat(500_000)}`, true)).toBe('COMMIT')
    expect(transactionControlIn(`INSERT INTO t VALUES (${'1, '.repeat(300_000)}1); COMMIT`)).toBe('COMMIT')
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000)
  })
})
