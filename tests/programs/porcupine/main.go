// Oracle of `belljar check`: judges histories by porcupine.
//
// Usage: porcupine MODEL < history.jsonl. The history is one that `belljar check` reads. Its objects, by "key", are judged one by one:
// for each a line {"key": KEY, "linearizable": true}, in the order of their first lines.
//
// A state is text, and a step gives all states that can follow. An operation of unknown outcome has no completion: its interval ends
// after the history, and beside its effects it can have none.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Time that the check of one object can take.
const limit = 10 * time.Second

type event struct {
	Process json.RawMessage
	Type    string
	F       string
	Key     json.RawMessage
	Value   json.RawMessage
}

type input struct {
	process string
	f       string
	value   string
}

// Result of an operation, if it is known.
type output struct {
	value string
	known bool
}

// States after an operation that took effect.
type step func(state string, in input, out output) []string

// Text of a state's elements. No JSON has this separator.
const separator = "\n"

func elements(state string) []string {
	if state == "" {
		return nil
	}
	return strings.Split(state, separator)
}

func register(state string, in input, out output) []string {
	switch in.f {
	case "read":
		if !out.known || out.value == state {
			return []string{state}
		}
		return nil
	case "write":
		return []string{in.value}
	case "cas":
		var values []json.RawMessage
		if json.Unmarshal([]byte(in.value), &values) != nil || len(values) != 2 {
			fail("cas of %s", in.value)
		}
		if string(values[0]) == state {
			return []string{string(values[1])}
		}
		return nil
	}
	fail("a register has no %s", in.f)
	return nil
}

func queue(state string, in input, out output) []string {
	all := elements(state)
	switch in.f {
	case "enqueue":
		return []string{strings.Join(append(all, in.value), separator)}
	case "dequeue":
		first, rest := "null", []string{}
		if len(all) > 0 {
			first, rest = all[0], all[1:]
		}
		if out.known && out.value != first {
			return nil
		}
		return []string{strings.Join(rest, separator)}
	}
	fail("a queue has no %s", in.f)
	return nil
}

// A mutex that its owner alone releases, or any process.
func mutex(owned bool) step {
	return func(state string, in input, _ output) []string {
		process := "somebody"
		if owned {
			process = in.process
		}
		switch {
		case in.f == "acquire" && state == "":
			return []string{process}
		case in.f == "release" && state == process:
			return []string{""}
		case in.f != "acquire" && in.f != "release":
			fail("a mutex has no %s", in.f)
		}
		return nil
	}
}

func set(state string, in input, out output) []string {
	all := elements(state)
	at, found := slices.BinarySearch(all, in.value)
	switch in.f {
	case "add":
		if !found {
			all = slices.Insert(all, at, in.value)
		}
		return []string{strings.Join(all, separator)}
	case "remove":
		if found {
			all = slices.Delete(all, at, at+1)
		}
		return []string{strings.Join(all, separator)}
	case "contains":
		if !out.known || out.value == fmt.Sprint(found) {
			return []string{state}
		}
		return nil
	case "read":
		var values []json.RawMessage
		if out.known && json.Unmarshal([]byte(out.value), &values) != nil {
			fail("read of %s", out.value)
		}
		var read []string
		for _, value := range values {
			read = append(read, string(value))
		}
		slices.Sort(read)
		if !out.known || strings.Join(slices.Compact(read), separator) == state {
			return []string{state}
		}
		return nil
	}
	fail("a set has no %s", in.f)
	return nil
}

func model(initial string, effect step) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{initial} },
		Step: func(state, in, out interface{}) []interface{} {
			var after []interface{}
			for _, one := range effect(state.(string), in.(input), out.(output)) {
				after = append(after, one)
			}
			if !out.(output).known {
				after = append(after, state)
			}
			return after
		},
	}
	return nondeterministic.ToModel()
}

// JSON without spaces, which Python writes.
func compact(value json.RawMessage) string {
	if value == nil {
		return "null"
	}
	var any interface{}
	if err := json.Unmarshal(value, &any); err != nil {
		fail("%v", err)
	}
	text, _ := json.Marshal(any)
	return string(text)
}

func fail(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, "porcupine: "+format+"\n", values...)
	os.Exit(2)
}

func main() {
	models := map[string]porcupine.Model{
		"register":     model("null", register),
		"cas-register": model("null", register),
		"queue":        model("", queue),
		"mutex":        model("", mutex(false)),
		"owned-mutex":  model("", mutex(true)),
		"set":          model("", set),
	}
	chosen, ok := models[strings.Join(os.Args[1:], " ")]
	if !ok {
		fail("there is no such model")
	}
	var keys []string
	histories := map[string][]porcupine.Operation{}
	// Index of the operation that a process has, by key and process.
	open := map[string]int{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for number := int64(1); lines.Scan(); number++ {
		var event event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			fail("line %d: %v", number, err)
		}
		key, process := compact(event.Key), compact(event.Process)
		history, known := histories[key]
		if !known {
			keys = append(keys, key)
		}
		at, pending := open[process]
		if pending == (event.Type == "invoke") {
			fail("line %d: process %s has an operation, or has none", number, process)
		}
		switch event.Type {
		case "invoke":
			open[process] = len(history)
			history = append(history, porcupine.Operation{
				Input:  input{process, event.F, compact(event.Value)},
				Call:   number,
				Output: output{},
				Return: math.MaxInt64,
			})
		case "ok":
			history[at].Return = number
			history[at].Output = output{compact(event.Value), true}
			delete(open, process)
		case "fail":
			// The operation is removed below: it has no effect.
			history[at].Input = nil
			delete(open, process)
		case "info":
			delete(open, process)
		default:
			fail("line %d: type %s", number, event.Type)
		}
		histories[key] = history
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, key := range keys {
		history := slices.DeleteFunc(histories[key], func(one porcupine.Operation) bool { return one.Input == nil })
		result := porcupine.CheckOperationsTimeout(chosen, history, limit)
		if result == porcupine.Unknown {
			fail("key %s: not decided in %v", key, limit)
		}
		fmt.Fprintf(out, "{\"key\": %s, \"linearizable\": %v}\n", key, result == porcupine.Ok)
	}
}
