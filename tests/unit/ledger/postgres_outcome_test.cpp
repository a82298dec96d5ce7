// Connections that are lost in the commit: the batch takes place once, whether the server had heard
// of it or not, and also where it is still at work on it when it is asked.
#include "tests/support/cutting_socket.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using millrace::test::CuttingSocket;

class PostgresOutcomeTest : public testing::Test {
 protected:
  PostgresOutcomeTest() {
    const std::string& url = millrace::test::postgres_url();
    const std::string before = url.substr(0, url.find("host=") + 5), folder = socket_.folder();
    auto store = open_postgres_store(before + folder + "&user=millrace", {schema_.name()});
    EXPECT_TRUE(store) << store.error().text();
    ledger_ = make_stored_ledger(*std::move(store), {publish});
  }
  void TearDown() override { sql("DROP FUNCTION IF EXISTS @.slow CASCADE"); }
  void sql(const std::string& statement) {
    PostgresConnection direct(millrace::test::postgres_url(), schema_.name());
    ASSERT_TRUE(direct.connect());
    direct.ask(statement);
    ASSERT_TRUE(direct.status()) << direct.status().error().text();
  }
  static std::string server_folder() {
    const std::string& url = millrace::test::postgres_url();
    const std::size_t from = url.find("host=") + 5;
    return url.substr(from, url.find('&') - from);
  }
  // Loses the connection in the commit of an append, which must take place once.
  void lose(CuttingSocket::Cut cut) {
    const std::vector<Operation> batch{Append{tenant, "log", "j", "body"}, job("a")};
    socket_.cut_next(cut);
    const auto lost = ledger_->apply(batch, start_us);
    ASSERT_FALSE(lost);
    EXPECT_TRUE(may_try_again(lost.error())) << lost.error().text();
    const auto again = ledger_->apply(batch, start_us);
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(std::get<FinishReply>(*again->at(0)).number, 1u);
    EXPECT_FALSE(std::get<SubmitReply>(*again->at(1)).known);
    const auto read = ledger_->apply(std::vector<Operation>{reading("log")}, start_us);
    EXPECT_EQ(std::get<ReadStreamReply>(*read->front()).high, 1u);
  }
  void slow_commits() {
    sql("CREATE FUNCTION @.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END'");
    sql("CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON @.entries DEFERRABLE INITIALLY "
        "DEFERRED FOR EACH ROW EXECUTE FUNCTION @.slow()");
  }

  const PostgresSchema schema_;
  CuttingSocket socket_{server_folder()};
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(PostgresOutcomeTest, TheServerHasNotHeardOfTheCommit) {
  lose(CuttingSocket::Cut::request);
}

TEST_F(PostgresOutcomeTest, TheServerHasCommittedAndTheAnswerIsLost) {
  lose(CuttingSocket::Cut::answer);
}

TEST_F(PostgresOutcomeTest, TheServerIsStillAtWorkOnTheCommit) {
  slow_commits();
  lose(CuttingSocket::Cut::answer);
}

TEST_F(PostgresOutcomeTest, ALeaseOfALostCommitKeepsItsNumberToItself) {
  ASSERT_TRUE(
      ledger_->apply(std::vector<Operation>{job("a"), job("b"), job("c"), claim(1)}, start_us));
  const std::vector<Operation> next{claim(1)};
  socket_.cut_next(CuttingSocket::Cut::answer);
  ASSERT_FALSE(ledger_->apply(next, start_us));
  const auto second = ledger_->apply(next, start_us), third = ledger_->apply(next, start_us);
  ASSERT_TRUE(second) << second.error().text();
  ASSERT_TRUE(third) << third.error().text();
  EXPECT_EQ(std::get<ClaimReply>(*second->front()).jobs.at(0).job, "b");
  EXPECT_EQ(std::get<ClaimReply>(*third->front()).jobs.at(0).job, "c");
  EXPECT_NE(std::get<ClaimReply>(*second->front()).jobs.at(0).lease,
            std::get<ClaimReply>(*third->front()).jobs.at(0).lease);
}

}  // namespace
}  // namespace millrace::broker::test
