/** Texts with passwords, and as the command line and the page show them. */
export const MASKED_TEXTS = [
  ['postgres://me:secret@db/app', 'postgres://me:***@db/app'],
  ['at "postgresql://me:p@ss/word#1@db/app"!', 'at "postgresql://me:***@db/app"!'],
  ['POSTGRES://me:p@ss/w:rd@db/app', 'POSTGRES://me:***@db/app'],
  ['amqp://guest:guest@mq and redis://:pw@cache', 'amqp://guest:***@mq and redis://:***@cache'],
  [
    'a_long.name-of-more-than-thirty.characters+amqp://u:pw@mq',
    'a_long.name-of-more-than-thirty.characters+amqp://u:***@mq',
  ],
  ['postgres://db/app?password=secret&x=1', 'postgres://db/app?password=***&x=1'],
  ['db/app?sslpassword=xyz', 'db/app?sslpassword=***'],
  ['http://host:8080/path/@scope', 'http://host:8080/path/@scope'],
  ['postgres://me@db:5432/app', 'postgres://me@db:5432/app'],
] as const

/** What a megabyte of is masked at once, and not after minutes. */
export const REPEATED = [
  'a.',
  'postgres://a:',
  'postgres://',
  'a://',
  '://a:b',
  '?password',
  '@',
  ':',
  '#',
  '...',
] as const
