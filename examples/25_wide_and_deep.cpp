// Who earns more than 50,000 dollars? A wide and deep network on the census of 1994. `--only write` makes TFRecords of
// tf.Examples from the tables, `--only train` learns from these records as a stream; by default both. `--ranks 2`
// trains data parallel, on threads, and `--workers 2` as two workers of two parameter servers, all in this process.
// `--model` writes the trained model for tapestry-serve; docs/pipeline.md goes that way to its end.
//
// Every categorical column has a part of one table of embeddings (deep) and of one table of weights (wide). Their
// gradients are row-sparse, so that a step changes only the rows of its batch.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/data_file.hpp"
#include "support/flags.hpp"

namespace {

using tp::data::Feature;

const std::vector<std::string> numbers{"age", "education_num", "capital_gain", "capital_loss", "hours_per_week"};
/// Columns of few words, which get a vocabulary, and of more, which are hashed.
const std::vector<std::string> vocabularies{"workclass", "education", "marital_status", "relationship", "race", "sex"};
const std::vector<std::string> hashed{"occupation", "native_country"};
constexpr std::int64_t hash_buckets = 1000, cross_buckets = 5000, embedding_size = 8;

// ---- From the tables to records

/// Writes the rows of a table into several files. An unknown field becomes no feature.
void write_records(const std::string& table_path, const std::string& prefix, int shards) {
  const auto table = tp::data::read_csv(table_path, {.missing = {"?"}});
  std::vector<std::vector<float>> columns;
  for (const std::string& name : numbers) columns.push_back(table.column(name).to_vector<float>());
  std::vector<std::string> words = vocabularies;
  words.insert(words.end(), hashed.begin(), hashed.end());
  for (int shard = 0; shard < shards; ++shard) {
    tp::data::RecordWriter writer(tp::data::shard_name(prefix, shard, shards));
    for (auto row = static_cast<std::size_t>(shard); row < static_cast<std::size_t>(table.rows());
         row += static_cast<std::size_t>(shards)) {
      tp::data::Example example{{"income", table.text("income")[row].starts_with(">50K") ? 1 : 0}};
      for (std::size_t i = 0; i < numbers.size(); ++i) example[numbers[i]] = columns[i][row];
      for (const std::string& name : words)
        if (const std::string& word = table.text(name)[row]; !word.empty()) example[name] = word;
      writer.write(tp::data::encode(example));
    }
    writer.close();
  }
}

void write_all(const std::string& data, const std::string& records) {
  const auto path_of = [&](const std::string& name) {
    return support::data_file(data, name,
                              "It is part of B. Becker's and R. Kohavi's Adult data (1996), with a line of names, "
                              "https://archive.ics.uci.edu/dataset/2.");
  };
  const std::string train = path_of("adult-train.csv"), test = path_of("adult-test.csv");
  std::filesystem::create_directories(records);
  write_records(train, records + "/train", 4);
  write_records(test, records + "/test", 1);
  const auto table = tp::data::read_csv(train, {.missing = {"?"}});
  for (const std::string& name : vocabularies) {
    std::ofstream file(records + "/" + name + ".txt");
    for (const std::string& word : table.categories(name).names)
      if (!word.empty()) file << word << '\n';
  }
}

// ---- From records to ids

/// The columns of ids, one behind the other in the tables: ids of a column begin where those of the one before end.
class Columns {
 public:
  explicit Columns(const std::string& records) {
    std::map<std::string, Feature> features{{"income", Feature::integers()}};
    for (const std::string& name : numbers) features.emplace(name, Feature::floats());
    for (const std::string& name : vocabularies) {
      const auto words = tp::data::Vocabulary::read(records + "/" + name + ".txt", {.unknown_buckets = 1});
      features.emplace(name, Feature::words(words, {.missing = std::string("?")}));
      begin_.push_back(deep_size += words.size());
    }
    for (const std::string& name : hashed) {
      features.emplace(name, Feature::hashed(hash_buckets, {.missing = std::string("?")}));
      begin_.push_back(deep_size += hash_buckets);
    }
    begin_.insert(begin_.begin(), 0);
    begin_.pop_back();
    parser.emplace(std::move(features));
  }

  struct Ids {
    tp::Tensor deep, wide;  ///< [batch, columns]
  };

  /// The ids of the columns, and for the wide part also those of buckets and crosses.
  Ids ids_of(const tp::data::Features& batch) const {
    std::vector<tp::Tensor> words;
    for (const std::string& name : vocabularies) words.push_back(batch[name]);
    for (const std::string& name : hashed) words.push_back(batch[name]);
    const auto deep = tp::stack(words, 1) + tp::tensor(begin_);
    const auto buckets = tp::stack({bucket(batch["age"], {18, 25, 30, 35, 40, 45, 50, 55, 60, 65}),
                                    bucket(batch["hours_per_week"], {20, 35, 40, 45, 50, 60}),
                                    bucket(batch["capital_gain"], {1, 3000, 5000, 7000, 10000, 50000}),
                                    bucket(batch["capital_loss"], {1, 1500, 1800, 2000, 2400})},
                                   1);
    // Crosses: one id for two columns, or three.
    constexpr std::int64_t education = 1, marital_status = 2, relationship = 3, occupation = 6, native_country = 7,
                           age = 8;
    const auto columns = tp::concat({deep, buckets}, 1);
    const auto cross = [](const tp::Tensor& a, const tp::Tensor& b) { return a * 1'000'003 + b; };
    const auto pairs =
        cross(tp::gather(columns, {education, marital_status, relationship, relationship, native_country}, 1),
              tp::gather(columns, {occupation, age, education, occupation, occupation}, 1));
    const auto triple = cross(tp::slice(pairs, {0, 0}, {-1, 1}), tp::slice(columns, {0, age}, {-1, 1}));
    const auto crosses = tp::mod(tp::concat({pairs, triple}, 1), cross_buckets);
    const auto more = tp::concat({buckets, crosses}, 1);
    return {deep, tp::concat({deep, more + (tp::arange(std::int64_t{10}) * cross_buckets + deep_size)}, 1)};
  }

  std::int64_t wide_size() const { return deep_size + 10 * cross_buckets; }

  std::optional<tp::data::ExampleParser> parser;
  std::int64_t deep_size = 0;

 private:
  /// How many of the boundaries each number has reached.
  static tp::Tensor bucket(const tp::Tensor& x, const std::vector<float>& boundaries) {
    return tp::reduce_sum((tp::expand_dims(x, 1) >= tp::tensor(boundaries)).cast(tp::int64), 1);
  }

  std::vector<std::int64_t> begin_;  ///< the first id of each column
};

/// Numbers of about the same size: those of money are so different that their logarithms serve better.
tp::Tensor numbers_of(const tp::data::Features& batch) {
  return tp::stack(
      {batch["age"] / 40.0 - 1.0, batch["education_num"] / 10.0 - 1.0, tp::log1p(batch["capital_gain"]) / 10.0,
       tp::log1p(batch["capital_loss"]) / 10.0, batch["hours_per_week"] / 40.0 - 1.0},
      1);
}

// ---- The network

struct WideAndDeep : tp::nn::Module {
  tp::nn::EmbeddingBag wide;
  tp::nn::Embedding deep;
  tp::nn::Sequential layers;
  TAPESTRY_FIELDS(wide, deep, layers)

  WideAndDeep(std::int64_t wide_ids, std::int64_t deep_ids)
      : wide(wide_ids, 1, {.combiner = tp::nn::Combiner::sum}),
        deep(deep_ids, embedding_size),
        layers{tp::nn::Dense(inputs, 64), tp::nn::ReLU(), tp::nn::Dropout(0.2),
               tp::nn::Dense(64, 32),     tp::nn::ReLU(), tp::nn::Dense(32, 1)} {
    wide.weight.assign(tp::zeros({wide_ids, 1}));
    deep.weight.assign(deep.weight * 0.1);
  }

  /// The logarithms of the odds, [batch].
  tp::Tensor operator()(const tp::Tensor& x, const Columns::Ids& ids) const {
    const auto embedded = tp::reshape(deep(ids.deep), {ids.deep.shape()[0], columns * embedding_size});
    return tp::squeeze(wide(ids.wide) + layers(tp::concat({x, embedded}, 1)), {1});
  }

  static constexpr std::int64_t columns = 8, inputs = 5 + columns * embedding_size;
};

// ---- From the network to a model that is served

/// Writes the model, whose inputs are the features, and beside the records a request for its predictions, from the
/// first examples of the test. Texts are no tensors, so a client gives the ids of words.
void write_model(const WideAndDeep& net, const Columns& columns, const std::string& records,
                 const std::string& folder) {
  const auto few = *tp::data::records(records + "/test-*").batch(3).map(*columns.parser).begin();
  tp::Graph graph;
  const auto scope = graph.as_default();
  tp::data::Features batch;
  tp::Signature signature;
  for (const auto& [name, values] : few.tensors) {
    if (name == "income") continue;
    batch.tensors[name] = tp::placeholder(values.dtype(), {-1}, name);
    signature.inputs.emplace(name, batch[name]);
  }
  const auto probability = tp::sigmoid(net(numbers_of(batch), columns.ids_of(batch)));
  signature.outputs = {{"probability", probability}};
  tp::saved_model::save(folder, signature);

  std::ofstream request(records + "/request.json");
  tp::Feeds feeds;
  for (std::int64_t row = 0; row < few["income"].size(); ++row) {
    request << (row == 0 ? "{\"instances\": [\n  {" : "},\n  {");
    for (const auto& [name, input] : signature.inputs)
      request << (name == signature.inputs.begin()->first ? "\"" : ", \"") << name
              << "\": " << few[name].to_vector<double>()[static_cast<std::size_t>(row)];
  }
  request << "}]}\n";
  for (const auto& [name, input] : signature.inputs) feeds.add(input, few[name]);
  std::cout << "The model in " << folder << " predicts " << tp::Session(graph).run(probability, feeds) << " for "
            << records << "/request.json\n";
}

// ---- Training

constexpr std::int64_t batch_size = 128;

struct Settings {
  std::string records, model;
  int epochs, ranks, workers;
  std::uint64_t seed;
};

tp::Tensor loss_of(const WideAndDeep& net, const tp::Tensor& x, const Columns::Ids& ids, const tp::Tensor& y) {
  return tp::losses::binary_cross_entropy_with_logits(y, net(x, ids));
}

/// The quality on the records of the test.
class Test {
 public:
  Test(WideAndDeep& net, const Columns& columns, const std::string& records)
      : net_(net), columns_(columns), records_(records) {}

  void run() {
    net_.eval();
    for (const auto& batch : tp::data::records(records_ + "/test-*").batch(1024).map(*columns_.parser)) {
      const auto probabilities = tp::sigmoid(net_(numbers_of(batch), columns_.ids_of(batch)));
      accuracy.update(batch["income"], probabilities);
      auc.update(batch["income"], probabilities);
    }
    net_.train();
  }
  void print(const char* how) {
    run();
    std::printf("%s: test accuracy %.3f, test AUC %.3f\n", how, accuracy.result().item<double>(),
                auc.result().item<double>());
    std::fflush(stdout);
  }

  tp::metrics::Accuracy accuracy;
  tp::metrics::AUC auc;

 private:
  WideAndDeep& net_;
  const Columns& columns_;
  std::string records_;
};

/// In one process.
void train_alone(WideAndDeep& net, const Columns& columns, const Settings& settings) {
  tp::train::AdagradOptimizer optimizer(0.1);
  auto batches = tp::data::records(settings.records + "/train-*")
                     .shuffle(10'000, {.seed = settings.seed})
                     .batch(batch_size)
                     .map(*columns.parser)
                     .prefetch(4);
  const auto step = tp::trace(
      [&](const tp::Tensor& x, const tp::Tensor& deep, const tp::Tensor& wide, const tp::Tensor& y) {
        return optimizer.minimize([&] { return loss_of(net, x, {deep, wide}, y); }, net.parameters());
      },
      {tp::spec(tp::float32, {-1, 5}), tp::spec(tp::int64, {-1, -1}), tp::spec(tp::int64, {-1, -1}),
       tp::spec(tp::float32, {-1})});
  Test test(net, columns, settings.records);
  const auto history =
      tp::train::fit(batches,
                     [&](const tp::data::Features& batch) {
                       const auto ids = columns.ids_of(batch);
                       return step(numbers_of(batch), ids.deep, ids.wide, batch["income"].cast(tp::float32));
                     },
                     {.epochs = settings.epochs,
                      .validate = [&] { test.run(); },
                      .validation_metrics = {{"test accuracy", &test.accuracy}, {"test AUC", &test.auc}},
                      .callbacks = {tp::train::show_progress(std::cerr)}});
  for (std::size_t i = 0; i < history.epochs.size(); ++i) {
    const auto& logs = history.epochs[i];
    std::printf("Epoch %zu: loss %.3f, test accuracy %.3f, test AUC %.3f\n", i + 1, logs.at("loss"),
                logs.at("test accuracy"), logs.at("test AUC"));
  }
  std::fflush(stdout);
}

std::int64_t steps_in_epoch(const Settings& settings) {
  std::int64_t rows = 0;
  for ([[maybe_unused]] const auto& record : tp::data::records(settings.records + "/train-*")) ++rows;
  return rows / batch_size;
}

/// The records of one of several workers, in batches that together have the size of one.
auto part_of(const Columns& columns, const Settings& settings, std::int64_t count, std::int64_t index) {
  return tp::data::records(settings.records + "/train-*")
      .shard(count, index)
      .shuffle(10'000, {.seed = settings.seed})
      .batch(batch_size / count)
      .take(steps_in_epoch(settings))
      .map(*columns.parser)
      .prefetch(4);
}

/// Each rank has a copy of the network, and its part of the records.
void train_on_ranks(WideAndDeep& result, const Columns& columns, const Settings& settings) {
  tp::run_ranks(settings.ranks, [&](const tp::Communicator& world) {
    WideAndDeep net(columns.wide_size(), columns.deep_size);
    world.broadcast(net.parameters());
    tp::train::AdagradOptimizer optimizer(0.1);
    tp::train::DataParallel training(optimizer, world);
    auto batches = part_of(columns, settings, world.size(), world.rank());
    for (int epoch = 0; epoch < settings.epochs; ++epoch)
      for (const auto& batch : batches)
        training.minimize(
            [&] { return loss_of(net, numbers_of(batch), columns.ids_of(batch), batch["income"].cast(tp::float32)); });
    if (world.rank() == 0) result.load_state_dict(net.state_dict());
  });
}

/// An address of this machine that nobody listens at.
std::string free_address() { return tp::Server::create_local_server().target().substr(std::string("grpc://").size()); }

/// What a worker does; the first of them gets the values at the end.
void work(WideAndDeep* result, const Columns& columns, const Settings& settings, const tp::ClusterSpec& cluster,
          const tp::Server& server) {
  WideAndDeep net(columns.wide_size(), columns.deep_size);
  const tp::Graph graph;
  tp::train::AdagradOptimizer optimizer(0.1);
  tp::Tensor x, y, deep, wide;
  tp::Operation step;
  {
    const auto scope = graph.as_default();
    const auto placed = tp::device(tp::train::replica_device_setter(
        cluster, {.balance = tp::train::Balance::by_size,
                  .worker_device = "/job:worker/task:" + std::to_string(server.task())}));
    x = tp::placeholder(tp::float32, {-1, 5}, "x"), y = tp::placeholder(tp::float32, {-1}, "y");
    deep = tp::placeholder(tp::int64, {-1, 8}, "deep"), wide = tp::placeholder(tp::int64, {-1, 18}, "wide");
    step = optimizer.minimize(loss_of(net, x, {deep, wide}, y), {.global_step = tp::train::global_step()});
  }
  tp::train::MonitoredSessionOptions options{
      .is_chief = server.task() == 0, .stop_at_step = steps_in_epoch(settings) * settings.workers * settings.epochs};
  if (result)
    options.hooks.push_back({.end = [&](const tp::Session& session, std::int64_t) {
      const auto values = net.parameters();
      auto results = result->parameters();
      for (std::size_t i = 0; i < values.size(); ++i) results[i].assign(session.run(values[i]));
    }});
  tp::train::MonitoredSession training(server.target(), graph, options);
  auto batches = part_of(columns, settings, settings.workers, server.task());
  while (!training.should_stop())
    for (const auto& batch : batches) {
      if (training.should_stop()) break;
      const auto ids = columns.ids_of(batch);
      training.run(
          step, {{x, numbers_of(batch)}, {deep, ids.deep}, {wide, ids.wide}, {y, batch["income"].cast(tp::float32)}});
    }
}

/// Two parameter servers have the tables, and the workers train them without waiting for each other.
void train_on_servers(WideAndDeep& result, const Columns& columns, const Settings& settings) {
  std::vector<std::string> addresses;
  for (int i = 0; i < settings.workers; ++i) addresses.push_back(free_address());
  const tp::ClusterSpec cluster({{"ps", {free_address(), free_address()}}, {"worker", addresses}});
  std::vector<tp::Server> ps, workers;
  for (int task = 0; task < 2; ++task) ps.emplace_back(cluster, tp::ServerOptions{.job = "ps", .task = task});
  for (int task = 0; task < settings.workers; ++task)
    workers.emplace_back(cluster, tp::ServerOptions{.job = "worker", .task = task});
  std::vector<std::future<void>> working;
  for (int task = 0; task < settings.workers; ++task)
    working.push_back(std::async(std::launch::async, [&, task] {
      work(task == 0 ? &result : nullptr, columns, settings, cluster, workers[static_cast<std::size_t>(task)]);
    }));
  for (std::future<void>& each : working) each.get();
}

void train(const Settings& settings) {
  const Columns columns(settings.records);
  tp::random::seed(settings.seed);
  WideAndDeep net(columns.wide_size(), columns.deep_size);
  if (settings.ranks > 0) {
    train_on_ranks(net, columns, settings);
    Test(net, columns, settings.records).print("Data parallel");
  } else if (settings.workers > 0) {
    train_on_servers(net, columns, settings);
    Test(net, columns, settings.records).print("Parameter servers");
  } else {
    train_alone(net, columns, settings);
  }
  net.eval();
  if (!settings.model.empty()) write_model(net, columns, settings.records, settings.model);
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/tabular", records = "census", only, model;
  int epochs = 8, seed = 1, ranks = 0, workers = 0;
  constexpr int most = 64;  // they are threads and servers of this process
  support::parse_flags(count, arguments, "Predicts who earns more than 50,000 dollars.",
                       {{"--data", "folder with adult-train.csv and adult-test.csv", data},
                        {"--records", "folder for the records", records},
                        {"--only", "what to do: write the records, or train on them; both by default", only},
                        {"--model", "folder for the trained model, such as models/census/1; none by default", model},
                        {"--ranks", "copies that train data parallel; 0: in one process", ranks, 0, most},
                        {"--workers", "workers that train on parameter servers; 0: in one process", workers, 0, most},
                        {"--epochs", "passes over the records", epochs, 1},
                        {"--seed", "of the order and of the first weights", seed}});
  return support::run([&] {
    if (!only.empty() && only != "write" && only != "train")
      throw tp::InvalidArgumentError("--only takes write or train, not " + only);
    if (ranks > 0 && workers > 0)
      throw tp::InvalidArgumentError("--ranks and --workers are two ways to train: choose one");
    if (!model.empty() && only != "write") support::require_folder("--model", model);
    if (only != "train") write_all(data, records);
    if (only == "write") return;
    train({.records = records,
           .model = model,
           .epochs = epochs,
           .ranks = ranks,
           .workers = workers,
           .seed = static_cast<std::uint64_t>(seed)});
  });
}

// Output:
// Epoch 1: loss 0.365, test accuracy 0.853, test AUC 0.902
// Epoch 2: loss 0.322, test accuracy 0.852, test AUC 0.908
// Epoch 3: loss 0.313, test accuracy 0.858, test AUC 0.910
// Epoch 4: loss 0.308, test accuracy 0.859, test AUC 0.911
// Epoch 5: loss 0.304, test accuracy 0.860, test AUC 0.912
// Epoch 6: loss 0.302, test accuracy 0.861, test AUC 0.913
// Epoch 7: loss 0.300, test accuracy 0.858, test AUC 0.913
// Epoch 8: loss 0.298, test accuracy 0.861, test AUC 0.914
