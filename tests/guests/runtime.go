// What Go's runtime and library ask of a kernel: goroutines, timers, the network poller, signals, faults, children.
// Reports as the C programs here do.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func check(ok bool, what ...any) {
	if !ok {
		panic(fmt.Sprint(what...))
	}
}

func goroutines() {
	var wg sync.WaitGroup
	var sum atomic.Int64
	c := make(chan int)
	for i := 0; i < 1000; i++ {
		wg.Add(1)
		go func() { defer wg.Done(); sum.Add(int64(<-c)) }()
	}
	for i := 0; i < 1000; i++ {
		c <- i
	}
	wg.Wait()
	check(sum.Load() == 499500, sum.Load())
}

func timers() {
	start := time.Now()
	select {
	case <-time.After(80 * time.Millisecond):
	case <-time.After(10 * time.Second):
	}
	d := time.Since(start)
	check(d >= 80*time.Millisecond && d < 3*time.Second, d)
	ticker := time.NewTicker(10 * time.Millisecond)
	for i := 0; i < 5; i++ {
		<-ticker.C
	}
	ticker.Stop()
}

func tcpEcho() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	var wg sync.WaitGroup
	for i := 0; i < 20; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := net.Dial("tcp", l.Addr().String())
			check(err == nil, err)
			out := bytes.Repeat([]byte{byte(i)}, 100000)
			go func() { c.Write(out); c.(*net.TCPConn).CloseWrite() }()
			in, err := io.ReadAll(c)
			check(err == nil && bytes.Equal(in, out), err, len(in))
			c.Close()
		}()
	}
	wg.Wait()
	l.Close()
}

func udpDeadline() {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(err == nil, err)
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _, err = c.ReadFrom(make([]byte, 10))
	check(os.IsTimeout(err), err)
	c.Close()
}

func httpRequests() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "to ", r.URL.Path) }))
	defer s.Close()
	for i := 0; i < 20; i++ {
		r, err := http.Get(fmt.Sprint(s.URL, "/", i))
		check(err == nil, err)
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		check(string(b) == fmt.Sprint("to /", i), string(b))
	}
}

func recoveredFault() {
	for i := 0; i < 10; i++ {
		func() {
			defer func() { check(recover() != nil, "no panic") }()
			var p *[1000]int
			p[i] = 1
		}()
		func() {
			defer func() { check(recover() != nil, "no panic") }()
			zero := 0
			fmt.Println(1 / zero)
		}()
	}
}

func signals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	select {
	case <-c:
	case <-time.After(5 * time.Second):
		panic("no signal came")
	}
	signal.Stop(c)
}

func preemption() {
	// a loop without calls must not keep the others from running, nor the collector from stopping the world
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
		}
	}()
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	stop.Store(true)
}

func collection() {
	var keep [][]byte
	for i := 0; i < 2000; i++ {
		b := make([]byte, 10000)
		b[i%10000] = byte(i)
		if i%20 == 0 {
			keep = append(keep, b)
		}
	}
	runtime.GC()
	for i, b := range keep {
		check(b[i*20%10000] == byte(i*20), i)
	}
}

func children() {
	out, err := exec.Command("/bin/echo", "from", "a child").Output()
	check(err == nil && string(out) == "from a child\n", err, string(out))
	err = exec.Command("/bin/false").Run()
	e, ok := err.(*exec.ExitError)
	check(ok && e.ExitCode() == 1, err)
}

func main() {
	tests := []struct {
		name string
		run  func()
	}{{"goroutines", goroutines}, {"timers", timers}, {"tcp_echo", tcpEcho}, {"udp_deadline", udpDeadline},
		{"http_requests", httpRequests}, {"recovered_fault", recoveredFault}, {"signals", signals},
		{"preemption", preemption}, {"collection", collection}, {"children", children}}
	failed := false
	for i, t := range tests {
		func() {
			defer func() {
				if p := recover(); p != nil {
					failed = true
					fmt.Printf("# %v\nnot ok %d - %s\n", p, i+1, t.name)
					return
				}
				fmt.Printf("ok %d - %s\n", i+1, t.name)
			}()
			t.run()
		}()
	}
	fmt.Printf("1..%d\n", len(tests))
	if failed {
		os.Exit(1)
	}
}
