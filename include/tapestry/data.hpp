#pragma once

#include "tapestry/data/arrays.hpp"
#include "tapestry/data/csv.hpp"
#include "tapestry/data/dataset.hpp"
#include "tapestry/data/loader.hpp"
