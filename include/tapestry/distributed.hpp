#pragma once

#include "tapestry/distributed/cluster.hpp"
#include "tapestry/distributed/communicator.hpp"
#include "tapestry/distributed/data_parallel.hpp"
#include "tapestry/distributed/monitored_session.hpp"
#include "tapestry/distributed/server.hpp"
#include "tapestry/distributed/sync_batch_norm.hpp"
#include "tapestry/distributed/sync_replicas.hpp"
