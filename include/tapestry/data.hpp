#pragma once

#include "tapestry/data/arrays.hpp"
#include "tapestry/data/collate.hpp"
#include "tapestry/data/csv.hpp"
#include "tapestry/data/dataset.hpp"
#include "tapestry/data/example.hpp"
#include "tapestry/data/example_parser.hpp"
#include "tapestry/data/loader.hpp"
#include "tapestry/data/records.hpp"
#include "tapestry/data/stages.hpp"
#include "tapestry/data/stream.hpp"
#include "tapestry/data/text_ids.hpp"
