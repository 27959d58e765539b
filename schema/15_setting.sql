-- The settings of the whole database.

-- One row.
CREATE TABLE sluice.setting (
  one           boolean NOT NULL DEFAULT true CONSTRAINT setting_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  -- For how long actions are kept: 90 days, unless it is changed.
  audit_keep_ms bigint  NOT NULL DEFAULT 7776000000 CONSTRAINT "audit_keep_ms: 1 day to 100 years"
    CHECK (audit_keep_ms BETWEEN 86400000 AND 3155760000000)
);
INSERT INTO sluice.setting DEFAULT VALUES;
