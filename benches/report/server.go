// A server of one short page: server ADDRESS.
package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") }
	if err := http.ListenAndServe(os.Args[1], http.HandlerFunc(page)); err != nil {
		os.Exit(1)
	}
}
