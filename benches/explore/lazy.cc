// An object that is made at its first use: its pointer is published before the object is filled, so that another thread may see a part of it. There is no system
// call between the two. With --filled the pointer is published last.
//
//   lazy [--filled]
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

struct Table {
    // Sums of the numbers below each index.
    std::atomic<int> sums[32];
};

static std::atomic<Table *> published;
static std::mutex making;
static bool fills_first;

static void fill(Table &table) {
    for (int n = 0, sum = 0; n < 32; sum += n++)
        table.sums[n].store(sum + 1, std::memory_order_release);
}

static Table &table() {
    Table *found = published.load(std::memory_order_acquire);
    if (!found) {
        std::lock_guard<std::mutex> locked(making);
        found = published.load(std::memory_order_acquire);
        if (!found) {
            static Table made;
            found = &made;
            if (fills_first)
                fill(*found);
            published.store(found, std::memory_order_release);
            if (!fills_first)
                fill(*found);
        }
    }
    return *found;
}

int main(int count, char **words) {
    fills_first = count > 1 && !std::strcmp(words[1], "--filled");
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int n = 0; n < 3; n++)
        threads.emplace_back([&wrong] { wrong += table().sums[31].load(std::memory_order_acquire) != 466; });
    for (auto &thread : threads)
        thread.join();
    std::puts(wrong ? "incomplete table" : "whole table");
    return wrong != 0;
}
