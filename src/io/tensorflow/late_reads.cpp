#include "io/tensorflow/late_reads.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "io/tensorflow/file_graph.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/updates.hpp"

namespace tapestry::io {
namespace {

class LateReads {
 public:
  explicit LateReads(GraphDef& graph)
      : graph_(graph), index_(numbers_by_name(graph)), users_(graph.nodes.size()), steps_left_(64 * users_.size()) {
    for (std::size_t i = 0; i < users_.size(); ++i)
      for (const std::string& input : node(i).inputs)
        if (const auto found = producer(input)) users_[*found].push_back(i);
  }

  void run() {
    std::vector<std::size_t> variables, updates;
    for (std::size_t i = 0; i < users_.size(); ++i) {
      if (!is_reference_variable(node(i))) continue;
      variables.push_back(i);
      for (const std::size_t each : updates_of(i)) updates.push_back(each);
    }
    behind_any_ = behind(std::move(updates));
    for (const std::size_t each : variables) give_late_reads(each);
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  NodeDef& node(std::size_t i) { return graph_.nodes[i]; }
  /// The node that an input comes from; nothing for a read that was added.
  std::optional<std::size_t> producer(const std::string& input) const {
    const auto found = index_.find(producer_name(input));
    return found == index_.end() || found->second >= users_.size() ? std::nullopt : std::optional(found->second);
  }

  std::vector<std::size_t> updates_of(std::size_t variable) {
    std::vector<std::size_t> updates;
    for (const std::size_t user : users_[variable])
      if (node(user).flow || (takes_reference(node(user).op) && node(user).op != "IsVariableInitialized"))
        updates.push_back(user);
    return updates;
  }

  /// For each node, whether it is one of these or waits for one.
  std::vector<char> behind(std::vector<std::size_t> pending) {
    std::vector<char> found(users_.size());
    while (!pending.empty()) {
      const std::size_t i = pending.back();
      pending.pop_back();
      if (std::exchange(found[i], 1)) continue;
      steps_left_ -= std::min(steps_left_, users_[i].size() + 1);
      pending.insert(pending.end(), users_[i].begin(), users_[i].end());
    }
    return found;
  }

  void give_late_reads(std::size_t variable) {
    // Identities of an Identity have the Variable's memory, too.
    std::vector<std::size_t> reads{variable};
    for (std::size_t next = 0; next < reads.size(); ++next)
      for (const std::size_t user : users_[reads[next]])
        if (is_identity(node(user)) && producer(node(user).inputs[0]) == reads[next]) reads.push_back(user);
    std::vector<std::pair<std::size_t, std::size_t>> late;  // users, and what they read
    for (std::size_t i = 1; i < reads.size(); ++i)
      for (const std::size_t user : users_[reads[i]])
        if (!awaited(user, reads[i], behind_any_).empty()) late.emplace_back(user, reads[i]);
    if (late.empty()) return;
    // A read that waits for the updates of other Variables, too, does no harm; a large graph may have many.
    const std::vector<char> own = steps_left_ > 0 ? behind(updates_of(variable)) : behind_any_;
    for (const auto& [user, read] : late) read_late(user, read, variable, own);
  }

  /// The nodes behind updates for which a user of a Variable's value waits.
  std::vector<std::string> awaited(std::size_t user, std::size_t read, const std::vector<char>& behind) {
    std::vector<std::string> names;
    bool uses = false;
    for (const std::string& input : node(user).inputs) {
      const auto found = producer(input);
      if (found == read && !input.starts_with('^')) uses = true;
      if (found && found != read && behind[*found]) names.push_back(producer_name(input));
    }
    if (!uses || is_merge(node(user))) names.clear();  // a Merge does not wait for all
    return names;
  }

  void read_late(std::size_t user, std::size_t read, std::size_t variable, const std::vector<char>& behind) {
    const std::vector<std::string> updates = awaited(user, read, behind);
    if (updates.empty()) return;
    const std::string& name = node(user).name;
    NodeDef late{.name = name + "/_/read", .op = "Identity", .inputs = {node(variable).name}};
    for (int i = 0; !index_.emplace(late.name, users_.size() + added_.size()).second; ++i)
      late.name = detail::join(name, "/_/read_", i);
    late.attrs = node(read).attrs;
    for (const std::string& each : updates) late.inputs.push_back("^" + each);
    for (std::size_t k = 0; k < data_inputs(node(user)); ++k) {
      std::string& input = node(user).inputs[k];
      if (producer_name(input) == node(read).name) input = late.name;
    }
    added_.push_back(std::move(late));
  }

  GraphDef& graph_;
  Index index_;
  std::vector<std::vector<std::size_t>> users_;
  std::size_t steps_left_;
  std::vector<char> behind_any_;
  std::vector<NodeDef> added_;
};

}  // namespace

void add_late_reads(GraphDef& graph) {
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_reference_variable)) LateReads(graph).run();
}

}  // namespace tapestry::io
