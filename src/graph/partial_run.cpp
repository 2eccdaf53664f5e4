// Runs of a session in several parts.

#include "graph/session_state.hpp"

namespace tapestry {

using detail::fed_value;
using detail::GraphState;

namespace {

bool has(const Tensors& list, const Tensor& wanted) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& each) { return each.is(wanted); });
}
bool has(const std::vector<detail::Node*>& list, const detail::Node* wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

/// Throws unless a feed or fetch was named in the setup and has not been used before.
void check_partial_run(std::string_view what, const std::string& name, bool promised, bool had) {
  if (!promised)
    throw InvalidArgumentError(detail::join("The ", what, " ", name, " was not specified in partial_run_setup."));
  if (had)
    throw InvalidArgumentError(
        detail::join("The ", what, " ", name, " had already been ", what == "feed" ? "fed." : "fetched."));
}

}  // namespace

struct Session::PartialRun::State {
  struct Known {
    Tensors keys{}, values{};  ///< what was fed, and what was computed for later parts
    Tensors fed{};
  };

  std::shared_ptr<SessionState> session;
  Tensors feeds;                                              ///< of the setup
  detail::Request promised;                                   ///< what the setup fetches
  std::shared_ptr<detail::RemoteSession::Prepared> remote{};  ///< on a server
  std::mutex mutex{};
  Known known{};
  detail::Request fetched{};  ///< what has been fetched; `done`: what has run for it

  Known with(const Feeds& new_feeds, Where where) const {
    Known result = known;
    for (const Feed& feed : new_feeds) {
      const Tensor key = session->feed_key(feed.key, where);
      check_partial_run("feed", key.name(), has(feeds, key), has(result.fed, key));
      result.keys.push_back(key);
      result.values.push_back(fed_value(key, feed.value, where));
      result.fed.push_back(key);
    }
    return result;
  }

  /// What has been fetched so far, and `more`. Throws if `more` was not named in the setup or was fetched before.
  detail::Request fetched_with(const detail::Request& more) const {
    detail::Request result = fetched;
    for (const Tensor& fetch : more.fetches) {
      check_partial_run("fetch", fetch.name(), has(promised.fetches, fetch), has(result.fetches, fetch));
      result.fetches.push_back(fetch);
    }
    for (detail::Node* node : more.operations) {
      check_partial_run("fetch", node->name(), has(promised.operations, node), has(result.operations, node));
      result.operations.push_back(node);
    }
    return result;
  }

  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const Feeds& feeds_now, Where where) {
    Known now = with(feeds_now, where);
    detail::Request had = fetched_with(session->request_for(fetches));
    if (remote) return run_remotely(fetches, std::move(now), std::move(had));
    SessionState::Prepared part = session->prepare(fetches, {}, now.keys);
    const std::size_t results = part.results.size();
    part.request.done = fetched.done;
    {
      const GraphState& graph = *session->graph().state();
      const std::lock_guard lock(graph.mutex());
      detail::add_carried_fetches(graph, part.request, promised);
    }
    had.done = std::exchange(part.request.done, fetched.done);
    for (std::size_t i = 0; i < part.request.fetches.size(); ++i) {
      part.results.push_back({.from = SessionState::Prepared::Result::From::fetch, .index = i});
      part.key.push_back(part.request.fetches[i].id());
    }
    part.key.push_back(-1);
    const Tensors computed = session->run(part, now.values);

    now.keys.append(part.request.fetches.begin(), part.request.fetches.end());
    now.values.append(computed.begin() + results, computed.end());
    known = std::move(now);
    fetched = std::move(had);
    return {computed.begin(), computed.begin() + results};
  }

  /// The server keeps what it has computed.
  std::vector<Tensor> run_remotely(const std::vector<Fetch>& fetches, Known now, detail::Request had) {
    const auto fed = static_cast<std::ptrdiff_t>(known.keys.size());
    SessionState::Prepared part = session->prepare(fetches, {}, Tensors(now.keys.begin() + fed, now.keys.end()));
    part.remote = remote;
    const Tensors computed = session->run(part, Tensors(now.values.begin() + fed, now.values.end()));
    known = std::move(now);
    fetched = std::move(had);
    return {computed.begin(), computed.end()};
  }
};

Session::PartialRun::PartialRun(std::shared_ptr<SessionState> session, const std::vector<Fetch>& fetches,
                                const std::vector<Tensor>& feeds, Where where)
    : state_(new State{.session = std::move(session), .feeds = {}, .promised = {}}) {
  detail::locating({}, where, [&] {
    for (const Tensor& feed : feeds) state_->feeds.push_back(state_->session->feed_key(feed, where));
    state_->promised = state_->session->request_for(fetches);
    if (detail::RemoteSession* remote = state_->session->remote()) {
      state_->promised.feeds = state_->feeds;
      state_->remote = remote->partial_run(state_->promised);
    }
  });
}

Session::PartialRun Session::partial_run_setup(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
                                               Where where) const {
  return PartialRun(state_, fetches, feeds, where);
}

std::vector<Tensor> Session::PartialRun::run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) {
  const std::lock_guard lock(state_->mutex);
  return detail::locating({}, where, [&] { return state_->run(fetches, feeds, where); });
}

}  // namespace tapestry
