PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('created_us','1795746735037331');
INSERT INTO meta VALUES('epoch','21f9a61f8d050b60c5a6ae571382f21d');
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES('next_lease',14);
INSERT INTO counters VALUES('next_sequence',25);
CREATE TABLE jobs (
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  hash TEXT NOT NULL,
  hash_version INTEGER NOT NULL,
  custom_id TEXT NOT NULL,
  model TEXT NOT NULL,
  stream TEXT NOT NULL,
  batch TEXT NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  deadline_us INTEGER,
  sequence INTEGER NOT NULL,
  submitted_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  suspect_us INTEGER,
  cancel INTEGER NOT NULL DEFAULT 0,
  number INTEGER NOT NULL DEFAULT 0,
  lease INTEGER, kv TEXT NOT NULL DEFAULT '', labels BLOB NOT NULL DEFAULT x'',
  PRIMARY KEY (tenant, job)
) STRICT, WITHOUT ROWID;
INSERT INTO jobs VALUES('default','any','hash of any',1,'label of any','*','results','',2,2,NULL,16,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','cancelled','hash of cancelled',1,'label of cancelled','model','results','closed',2,2,NULL,10,1700000000000000,4,0,0,NULL,0,6,NULL,'',X'');
INSERT INTO jobs VALUES('default','completed-1','hash of completed-1',1,'label of completed-1','model','results','',2,2,NULL,1,1700000000000000,2,1,0,NULL,0,1,NULL,'',X'');
INSERT INTO jobs VALUES('default','completed-2','hash of completed-2',1,'label of completed-2','model','results','closed',2,2,NULL,2,1700000000000000,2,1,0,NULL,0,2,NULL,'',X'');
INSERT INTO jobs VALUES('default','costs','hash of costs',1,'label of costs','model','results','',2,2,NULL,22,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','deadline','hash of deadline',1,'label of deadline','model','results','',2,2,1700003600000000,17,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','expired','hash of expired',1,'label of expired','model','results','',2,2,1699999999999999,11,1700000000000000,5,0,0,NULL,0,7,NULL,'',X'');
INSERT INTO jobs VALUES('default','failed-1','hash of failed-1',1,'label of failed-1','model','results','open',2,2,NULL,3,1700000000000000,3,1,0,NULL,0,3,NULL,'',X'');
INSERT INTO jobs VALUES('default','failed-2','hash of failed-2',1,'label of failed-2','model','results','',2,2,NULL,4,1700000000000000,3,1,0,NULL,0,4,NULL,'',X'');
INSERT INTO jobs VALUES('default','leased-1','hash of leased-1',1,'label of leased-1','model','results','',2,2,NULL,12,1700000000000000,1,1,0,NULL,0,0,11,'',X'');
INSERT INTO jobs VALUES('default','leased-2','hash of leased-2',1,'label of leased-2','model','results','open',2,2,NULL,13,1700000000000000,1,1,0,NULL,0,0,12,'',X'');
INSERT INTO jobs VALUES('default','leased-3','hash of leased-3',1,'label of leased-3','model','results','',2,2,NULL,14,1700000000000000,1,1,0,NULL,1,0,13,'',X'');
INSERT INTO jobs VALUES('default','queued-1','hash of queued-1',1,'label of queued-1','model','results','open',2,2,NULL,18,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','queued-2','hash of queued-2',1,'label of queued-2','model','results','open',2,2,NULL,19,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','retried','hash of retried',1,'label of retried','model','results','',2,2,NULL,5,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','says','hash of says',1,'label of says','model','results','',2,2,NULL,21,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'68656c6c6f');
INSERT INTO jobs VALUES('default','suspect-1','hash of suspect-1',1,'label of suspect-1','model','results','',2,2,NULL,6,1700000000000000,1,2,0,1700000000000000,0,0,10,'',X'');
INSERT INTO jobs VALUES('default','suspect-2','hash of suspect-2',1,'label of suspect-2','model','results','',2,2,NULL,7,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','suspect-3','hash of suspect-3',1,'label of suspect-3','model','results','open',2,2,NULL,8,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','suspect-4','hash of suspect-4',1,'label of suspect-4','model','results','',2,2,NULL,9,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','urgent','hash of urgent',1,'label of urgent','model','results','',1,2,NULL,15,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('default','wants','hash of wants',1,'label of wants','model','results','',2,2,NULL,20,1700000000000000,0,0,0,NULL,0,0,NULL,'r5/r3',X'');
INSERT INTO jobs VALUES('other','other-1','hash of other-1',1,'label of other-1','model','results','',2,2,NULL,23,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
INSERT INTO jobs VALUES('other','other-2','hash of other-2',1,'label of other-2','model','results','open',2,2,NULL,24,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'');
CREATE TABLE job_bodies (
  tenant TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, sequence)
) STRICT;
INSERT INTO job_bodies VALUES('default',3,-4341077176466028490,X'626f6479206f66206661696c65642d31');
INSERT INTO job_bodies VALUES('default',4,3567368083238522694,X'626f6479206f66206661696c65642d32');
INSERT INTO job_bodies VALUES('default',5,-3808709872451111201,X'626f6479206f662072657472696564');
INSERT INTO job_bodies VALUES('default',6,-1999195095071692115,X'626f6479206f6620737573706563742d31');
INSERT INTO job_bodies VALUES('default',7,-7859233112895634801,X'626f6479206f6620737573706563742d32');
INSERT INTO job_bodies VALUES('default',8,-1172395233751873340,X'626f6479206f6620737573706563742d33');
INSERT INTO job_bodies VALUES('default',9,9072602701699440668,X'626f6479206f6620737573706563742d34');
INSERT INTO job_bodies VALUES('default',12,883800729510944970,X'626f6479206f66206c65617365642d31');
INSERT INTO job_bodies VALUES('default',13,3461381084339334996,X'626f6479206f66206c65617365642d32');
INSERT INTO job_bodies VALUES('default',14,-1931526587700036090,X'626f6479206f66206c65617365642d33');
INSERT INTO job_bodies VALUES('default',15,2545452088422816626,X'626f6479206f6620757267656e74');
INSERT INTO job_bodies VALUES('default',16,7858711747395832426,X'626f6479206f6620616e79');
INSERT INTO job_bodies VALUES('default',17,-3537936497651039440,X'626f6479206f6620646561646c696e65');
INSERT INTO job_bodies VALUES('default',18,4807092648156096433,X'626f6479206f66207175657565642d31');
INSERT INTO job_bodies VALUES('default',19,-6593746207399699453,X'626f6479206f66207175657565642d32');
INSERT INTO job_bodies VALUES('default',20,130946893911701177,X'77616e74732072352f7233');
INSERT INTO job_bodies VALUES('default',21,7580688639417169003,X'736179732068656c6c6f');
INSERT INTO job_bodies VALUES('default',22,-4001430775699631983,X'636f73747320393030');
INSERT INTO job_bodies VALUES('other',23,694341313678262904,X'626f6479206f66206f746865722d31');
INSERT INTO job_bodies VALUES('other',24,3996189430168146303,X'626f6479206f66206f746865722d32');
CREATE TABLE leases (
  lease INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  engine TEXT NOT NULL,
  until_us INTEGER NOT NULL,
  alone INTEGER NOT NULL
) STRICT;
INSERT INTO leases VALUES(10,'default','suspect-1','engine',1700001000000000,1);
INSERT INTO leases VALUES(11,'default','leased-1','engine',1700001000000000,0);
INSERT INTO leases VALUES(12,'default','leased-2','engine',1700001000000000,0);
INSERT INTO leases VALUES(13,'default','leased-3','engine',1700001000000000,0);
CREATE TABLE job_counts (
  tenant TEXT NOT NULL,
  batch TEXT NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (tenant, batch, state)
) STRICT, WITHOUT ROWID;
INSERT INTO job_counts VALUES('default','',0,12);
INSERT INTO job_counts VALUES('default','',1,4);
INSERT INTO job_counts VALUES('default','',2,2);
INSERT INTO job_counts VALUES('default','',3,2);
INSERT INTO job_counts VALUES('default','',4,1);
INSERT INTO job_counts VALUES('default','',5,1);
INSERT INTO job_counts VALUES('default','closed',2,1);
INSERT INTO job_counts VALUES('default','closed',4,1);
INSERT INTO job_counts VALUES('default','open',0,3);
INSERT INTO job_counts VALUES('default','open',1,1);
INSERT INTO job_counts VALUES('default','open',3,1);
INSERT INTO job_counts VALUES('other','',0,2);
INSERT INTO job_counts VALUES('other','open',0,1);
CREATE TABLE streams (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  first INTEGER NOT NULL,
  high INTEGER NOT NULL,
  PRIMARY KEY (tenant, stream)
) STRICT, WITHOUT ROWID;
INSERT INTO streams VALUES('default','rejected',1,1);
INSERT INTO streams VALUES('default','results',2,7);
CREATE TABLE entries (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  number INTEGER NOT NULL,
  job TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, stream, number)
) STRICT;
INSERT INTO entries VALUES('default','results',2,'completed-2',-1600484284982741798,X'726573756c74206f66206c656173652032');
INSERT INTO entries VALUES('default','results',3,'failed-1',5925228820694749720,X'726573756c74206f66206c656173652033');
INSERT INTO entries VALUES('default','results',4,'failed-2',-3051015264868399001,X'726573756c74206f66206c656173652034');
INSERT INTO entries VALUES('default','results',5,'retried',1554333372552074324,X'726573756c74206f66206c656173652035');
INSERT INTO entries VALUES('default','results',6,'cancelled',-675901639076321814,X'74686520656e64206f662063616e63656c6c6564');
INSERT INTO entries VALUES('default','results',7,'expired',-5698450837105328978,X'74686520656e64206f662065787069726564');
INSERT INTO entries VALUES('default','rejected',1,'unknown',-5634701174642145786,X'77686174207761732072656675736564');
CREATE TABLE cursors (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  cursor TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (tenant, stream, cursor)
) STRICT, WITHOUT ROWID;
INSERT INTO cursors VALUES('default','results','reader',2);
CREATE TABLE queue (
  tenant TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  model TEXT NOT NULL,
  kv TEXT NOT NULL,
  priority INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  job TEXT NOT NULL,
  deadline_us INTEGER,
  PRIMARY KEY (tenant, suspect, model, kv, priority, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO queue VALUES('default',0,'*','',2,16,'any',NULL);
INSERT INTO queue VALUES('default',0,'model','',1,15,'urgent',NULL);
INSERT INTO queue VALUES('default',0,'model','',2,5,'retried',NULL);
INSERT INTO queue VALUES('default',0,'model','',2,17,'deadline',1700003600000000);
INSERT INTO queue VALUES('default',0,'model','',2,18,'queued-1',NULL);
INSERT INTO queue VALUES('default',0,'model','',2,19,'queued-2',NULL);
INSERT INTO queue VALUES('default',0,'model','',2,21,'says',NULL);
INSERT INTO queue VALUES('default',0,'model','',2,22,'costs',NULL);
INSERT INTO queue VALUES('default',0,'model','r5/r3',2,20,'wants',NULL);
INSERT INTO queue VALUES('default',1,'model','',2,7,'suspect-2',NULL);
INSERT INTO queue VALUES('default',1,'model','',2,8,'suspect-3',NULL);
INSERT INTO queue VALUES('default',1,'model','',2,9,'suspect-4',NULL);
INSERT INTO queue VALUES('other',0,'model','',2,23,'other-1',NULL);
INSERT INTO queue VALUES('other',0,'model','',2,24,'other-2',NULL);
CREATE INDEX jobs_of_batch ON jobs (tenant, batch, state, sequence) WHERE batch <> '';
CREATE INDEX jobs_by_deadline ON jobs (tenant, deadline_us, sequence)
  WHERE deadline_us IS NOT NULL AND state < 2;
CREATE INDEX leases_of_engine ON leases (engine);
CREATE INDEX leases_by_end ON leases (until_us);
COMMIT;
PRAGMA application_id=1296847427; PRAGMA user_version=3;
