// net/http with HTTP/2 over TLS: "serve" listens on port 443 of all addresses, "ask HOST" makes twenty requests at once,
// which share a connection, and says what came back.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"os"
	"sync"
	"time"
)

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	made, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}

func serve() {
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		length, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			log.Print(err)
		}
		fmt.Fprintf(answer, "%s %d %d", request.Proto, length, sum(1000))
	})
	server := &http.Server{
		Addr:      ":443",
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}},
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

func ask(host string) {
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	var all sync.WaitGroup
	said := make([]string, 20)
	for n := range said {
		all.Add(1)
		go func() {
			defer all.Done()
			answer, err := client.Post("https://"+host+"/", "text/plain", bytes.NewReader(make([]byte, 100_000)))
			if err != nil {
				log.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				log.Fatal(err)
			}
			said[n] = string(body)
		}()
	}
	all.Wait()
	for _, line := range said {
		fmt.Println(line)
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		serve()
	} else if len(os.Args) == 3 && os.Args[1] == "ask" {
		ask(os.Args[2])
	} else {
		log.Fatal("serve | ask HOST")
	}
}
