// A web server in Go for the files below a directory: web DIRECTORY [ADDRESS].
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: web DIRECTORY [ADDRESS]")
		os.Exit(2)
	}
	address := ":80"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	fmt.Println("serving", os.Args[1])
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, http.FileServer(http.Dir(os.Args[1]))))
	os.Exit(1)
}
