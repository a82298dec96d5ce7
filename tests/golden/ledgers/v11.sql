PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('created_us','1795748281907999');
INSERT INTO meta VALUES('epoch','8bdc968d00fd2717d3d03870efe85364');
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES('next_lease',16);
INSERT INTO counters VALUES('next_sequence',31);
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
  lease INTEGER, kv TEXT NOT NULL DEFAULT '', labels BLOB NOT NULL DEFAULT x'', ended_us INTEGER, incident INTEGER NOT NULL DEFAULT 0, among INTEGER NOT NULL DEFAULT 0, cost_tokens INTEGER NOT NULL DEFAULT 1, start_us INTEGER, error_code TEXT NOT NULL DEFAULT '', error_message TEXT NOT NULL DEFAULT '', error_hint TEXT NOT NULL DEFAULT '', prefix INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, job)
) STRICT, WITHOUT ROWID;
INSERT INTO jobs VALUES('default','again','hash of again',3,'label of again','model','results','',0,2,NULL,25,1700000000000000,0,1,1,NULL,0,0,NULL,'',X'',NULL,0,0,1,1700000002000000,'internal','it failed','ask for something else',0);
INSERT INTO jobs VALUES('default','any','hash of any',3,'label of any','*','results','',2,2,NULL,16,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','aside','hash of aside',3,'label of aside','model','results','paused',0,2,NULL,29,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,9223372036854775807,'','','',0);
INSERT INTO jobs VALUES('default','begins','hash of begins',3,'label of begins','model','results','',2,2,NULL,27,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',7);
INSERT INTO jobs VALUES('default','cancelled','hash of cancelled',3,'label of cancelled','model','results','closed',2,2,NULL,10,1700000000000000,4,0,0,NULL,0,6,NULL,'',X'',1700000000000000,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','completed-1','hash of completed-1',3,'label of completed-1','model','results','',2,2,NULL,1,1700000000000000,2,1,0,NULL,0,1,NULL,'',X'',1700000000000000,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','completed-2','hash of completed-2',3,'label of completed-2','model','results','closed',2,2,NULL,2,1700000000000000,2,1,0,NULL,0,2,NULL,'',X'',1700000000000000,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','costs','hash of costs',3,'label of costs','model','results','',2,2,NULL,22,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,900,NULL,'','','',0);
INSERT INTO jobs VALUES('default','deadline','hash of deadline',3,'label of deadline','model','results','',2,2,1700003600000000,17,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','expired','hash of expired',3,'label of expired','model','results','',2,2,1699999999999999,11,1700000000000000,5,0,0,NULL,0,7,NULL,'',X'',1700000000000000,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','failed-1','hash of failed-1',3,'label of failed-1','model','results','open',2,2,NULL,3,1700000000000000,3,1,0,NULL,0,3,NULL,'',X'',1700000000000000,0,0,1,NULL,'invalid_value','it failed','ask for something else',0);
INSERT INTO jobs VALUES('default','failed-2','hash of failed-2',3,'label of failed-2','model','results','',2,2,NULL,4,1700000000000000,3,1,0,NULL,0,4,NULL,'',X'',1700000000000000,0,0,1,NULL,'invalid_value','it failed','ask for something else',0);
INSERT INTO jobs VALUES('default','later','hash of later',3,'label of later','model','results','',2,2,NULL,26,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,1700000060000000,'','','',0);
INSERT INTO jobs VALUES('default','leased-1','hash of leased-1',3,'label of leased-1','model','results','',2,2,NULL,12,1700000000000000,1,1,0,NULL,0,0,11,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','leased-2','hash of leased-2',3,'label of leased-2','model','results','open',2,2,NULL,13,1700000000000000,1,1,0,NULL,0,0,12,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','leased-3','hash of leased-3',3,'label of leased-3','model','results','',2,2,NULL,14,1700000000000000,1,1,0,NULL,1,0,13,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','paused','hash of paused',3,'label of paused','model','results','paused',2,2,NULL,30,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','queued-1','hash of queued-1',3,'label of queued-1','model','results','open',2,2,NULL,18,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','queued-2','hash of queued-2',3,'label of queued-2','model','results','open',2,2,NULL,19,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','rare','hash of rare',3,'label of rare','rare','results','',2,2,NULL,28,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','retried','hash of retried',3,'label of retried','model','results','',2,2,NULL,5,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','says','hash of says',3,'label of says','model','results','',2,2,NULL,21,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'68656c6c6f',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','suspect-1','hash of suspect-1',3,'label of suspect-1','model','results','',2,2,NULL,6,1700000000000000,1,2,0,1700000000000000,0,0,10,'',X'',NULL,6,4,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','suspect-2','hash of suspect-2',3,'label of suspect-2','model','results','',2,2,NULL,7,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'',NULL,6,4,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','suspect-3','hash of suspect-3',3,'label of suspect-3','model','results','open',2,2,NULL,8,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'',NULL,6,4,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','suspect-4','hash of suspect-4',3,'label of suspect-4','model','results','',2,2,NULL,9,1700000000000000,0,1,0,1700000000000000,0,0,NULL,'',X'',NULL,6,4,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','urgent','hash of urgent',3,'label of urgent','model','results','',1,2,NULL,15,1700000000000000,1,1,0,NULL,0,0,15,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('default','wants','hash of wants',3,'label of wants','model','results','',2,2,NULL,20,1700000000000000,0,0,0,NULL,0,0,NULL,'r5/r3',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('other','other-1','hash of other-1',3,'label of other-1','model','results','',2,2,NULL,23,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
INSERT INTO jobs VALUES('other','other-2','hash of other-2',3,'label of other-2','model','results','open',2,2,NULL,24,1700000000000000,0,0,0,NULL,0,0,NULL,'',X'',NULL,0,0,1,NULL,'','','',0);
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
INSERT INTO job_bodies VALUES('default',25,5985431740390129746,X'626f6479206f6620616761696e');
INSERT INTO job_bodies VALUES('default',26,-2877859469529394587,X'626f6479206f66206c61746572');
INSERT INTO job_bodies VALUES('default',27,-5316260999895693484,X'626f6479206f6620626567696e73');
INSERT INTO job_bodies VALUES('default',28,7660055657602514268,X'626f6479206f662072617265');
INSERT INTO job_bodies VALUES('default',29,7679386261182795809,X'626f6479206f66206173696465');
INSERT INTO job_bodies VALUES('default',30,3370298595944275183,X'626f6479206f6620706175736564');
CREATE TABLE leases (
  lease INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  engine TEXT NOT NULL,
  until_us INTEGER NOT NULL,
  alone INTEGER NOT NULL
) STRICT;
INSERT INTO leases VALUES(10,'default','suspect-1','engine',1700001000000000,0);
INSERT INTO leases VALUES(11,'default','leased-1','engine',1700001000000000,0);
INSERT INTO leases VALUES(12,'default','leased-2','engine',1700001000000000,0);
INSERT INTO leases VALUES(13,'default','leased-3','engine',1700001000000000,0);
INSERT INTO leases VALUES(15,'default','urgent','engine',1700001000000000,0);
CREATE TABLE job_counts (
  tenant TEXT NOT NULL,
  batch TEXT NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (tenant, batch, state)
) STRICT, WITHOUT ROWID;
INSERT INTO job_counts VALUES('default','',0,17);
INSERT INTO job_counts VALUES('default','',1,5);
INSERT INTO job_counts VALUES('default','',2,2);
INSERT INTO job_counts VALUES('default','',3,2);
INSERT INTO job_counts VALUES('default','',4,1);
INSERT INTO job_counts VALUES('default','',5,1);
INSERT INTO job_counts VALUES('default','closed',2,1);
INSERT INTO job_counts VALUES('default','closed',4,1);
INSERT INTO job_counts VALUES('default','open',0,3);
INSERT INTO job_counts VALUES('default','open',1,1);
INSERT INTO job_counts VALUES('default','open',3,1);
INSERT INTO job_counts VALUES('default','paused',0,2);
INSERT INTO job_counts VALUES('other','',0,2);
INSERT INTO job_counts VALUES('other','open',0,1);
CREATE TABLE streams (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  first INTEGER NOT NULL,
  high INTEGER NOT NULL, oldest INTEGER NOT NULL DEFAULT 1, bytes INTEGER NOT NULL DEFAULT 0, age_us INTEGER, max_bytes INTEGER, cursor_age_us INTEGER,
  PRIMARY KEY (tenant, stream)
) STRICT, WITHOUT ROWID;
INSERT INTO streams VALUES('default','batches',1,1,1,194,NULL,NULL,NULL);
INSERT INTO streams VALUES('default','rejected',1,1,1,16,NULL,NULL,NULL);
INSERT INTO streams VALUES('default','results',3,7,2,106,86400000000,NULL,NULL);
CREATE TABLE entries (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  number INTEGER NOT NULL,
  job TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL, written_us INTEGER NOT NULL DEFAULT 1795748281907999,
  PRIMARY KEY (tenant, stream, number)
) STRICT;
INSERT INTO entries VALUES('default','results',2,'completed-2',-1600484284982741798,X'726573756c74206f66206c656173652032',1700000000000000);
INSERT INTO entries VALUES('default','results',3,'failed-1',5925228820694749720,X'726573756c74206f66206c656173652033',1700000000000000);
INSERT INTO entries VALUES('default','results',4,'failed-2',-3051015264868399001,X'726573756c74206f66206c656173652034',1700000000000000);
INSERT INTO entries VALUES('default','results',5,'retried',1554333372552074324,X'726573756c74206f66206c656173652035',1700000000000000);
INSERT INTO entries VALUES('default','results',6,'cancelled',-675901639076321814,X'74686520656e64206f662063616e63656c6c6564',1700000000000000);
INSERT INTO entries VALUES('default','results',7,'expired',-5698450837105328978,X'74686520656e64206f662065787069726564',1700000000000000);
INSERT INTO entries VALUES('default','rejected',1,'unknown',-5634701174642145786,X'77686174207761732072656675736564',1700000000000000);
INSERT INTO entries VALUES('default','batches',1,'',-6632511023288862663,X'8ba36a6f62a0a9637573746f6d5f6964a0a56d6f64656ca0a56261746368a6636c6f736564a57374617465a9636f6d706c65746564a87761726e696e677390a86d6574616461746181a46d616465a27570a8617474656d70747300ac7375626d69747465645f7573cf00060a24181e4000a8656e6465645f7573cf00060a24181e4000a6636f756e747386a671756575656400a66c656173656400a9636f6d706c6574656401a66661696c656400a963616e63656c6c656401a76578706972656400',1700000000000000);
CREATE TABLE cursors (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  cursor TEXT NOT NULL,
  number INTEGER NOT NULL, moved_us INTEGER NOT NULL DEFAULT 1795748281907999,
  PRIMARY KEY (tenant, stream, cursor)
) STRICT, WITHOUT ROWID;
INSERT INTO cursors VALUES('default','results','reader',2,1700000000000000);
CREATE TABLE queue (
  tenant TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  model TEXT NOT NULL,
  kv TEXT NOT NULL,
  priority INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  job TEXT NOT NULL,
  deadline_us INTEGER, prefix INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, suspect, model, kv, priority, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO queue VALUES('default',0,'*','',2,16,'any',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,5,'retried',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,17,'deadline',1700003600000000,0);
INSERT INTO queue VALUES('default',0,'model','',2,18,'queued-1',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,19,'queued-2',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,21,'says',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,22,'costs',NULL,0);
INSERT INTO queue VALUES('default',0,'model','',2,27,'begins',NULL,7);
INSERT INTO queue VALUES('default',0,'model','',2,30,'paused',NULL,0);
INSERT INTO queue VALUES('default',0,'model','r5/r3',2,20,'wants',NULL,0);
INSERT INTO queue VALUES('default',0,'rare','',2,28,'rare',NULL,0);
INSERT INTO queue VALUES('default',4,'model','',2,7,'suspect-2',NULL,0);
INSERT INTO queue VALUES('default',4,'model','',2,8,'suspect-3',NULL,0);
INSERT INTO queue VALUES('default',4,'model','',2,9,'suspect-4',NULL,0);
INSERT INTO queue VALUES('other',0,'model','',2,23,'other-1',NULL,0);
INSERT INTO queue VALUES('other',0,'model','',2,24,'other-2',NULL,0);
CREATE TABLE batches (tenant TEXT NOT NULL, batch TEXT NOT NULL, created_us INTEGER NOT NULL, closed INTEGER NOT NULL, finished_us INTEGER, number INTEGER NOT NULL, metadata BLOB NOT NULL, paused INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, batch)) STRICT, WITHOUT ROWID;
INSERT INTO batches VALUES('default','closed',1700000000000000,1,1700000000000000,1,X'82a86d6574616461746181a46d616465a27570a87761726e696e677390',0);
INSERT INTO batches VALUES('default','open',1700000000000000,0,NULL,0,X'',0);
INSERT INTO batches VALUES('default','paused',1700000000000000,0,NULL,0,X'',1);
INSERT INTO batches VALUES('other','open',1700000000000000,0,NULL,0,X'',0);
CREATE TABLE pauses (tenant TEXT NOT NULL, model TEXT NOT NULL, PRIMARY KEY (tenant, model)) STRICT, WITHOUT ROWID;
INSERT INTO pauses VALUES('default','rare');
CREATE TABLE ready_counts (tenant TEXT NOT NULL, batch TEXT NOT NULL, model TEXT NOT NULL, kv TEXT NOT NULL, jobs INTEGER NOT NULL, PRIMARY KEY (tenant, batch, model, kv)) STRICT, WITHOUT ROWID;
INSERT INTO ready_counts VALUES('default','','*','',1);
INSERT INTO ready_counts VALUES('default','','model','',7);
INSERT INTO ready_counts VALUES('default','','model','r5/r3',1);
INSERT INTO ready_counts VALUES('default','','rare','',1);
INSERT INTO ready_counts VALUES('default','open','model','',2);
INSERT INTO ready_counts VALUES('default','paused','model','',1);
INSERT INTO ready_counts VALUES('other','','model','',2);
INSERT INTO ready_counts VALUES('other','open','model','',1);
CREATE INDEX jobs_of_batch ON jobs (tenant, batch, state, sequence) WHERE batch <> '';
CREATE INDEX jobs_by_deadline ON jobs (tenant, deadline_us, sequence)
  WHERE deadline_us IS NOT NULL AND state < 2;
CREATE INDEX leases_of_engine ON leases (engine);
CREATE INDEX leases_by_end ON leases (until_us);
CREATE INDEX jobs_by_end ON jobs (ended_us) WHERE ended_us IS NOT NULL;
CREATE INDEX jobs_of_incident ON jobs (incident, sequence) WHERE incident <> 0;
CREATE INDEX jobs_by_start ON jobs (tenant, start_us, sequence) WHERE start_us IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (tenant, job) WHERE state = 3;
CREATE INDEX jobs_set_aside ON jobs (tenant, batch, sequence) WHERE start_us = 9223372036854775807;
COMMIT;
PRAGMA application_id=1296847427; PRAGMA user_version=11;
