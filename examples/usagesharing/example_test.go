package usagesharing_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/respitehttp/respite/examples/usagesharing"
)

func Example() {
	// The service that collects usage data.
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		message, _ := gzip.NewReader(r.Body)
		document, _ := io.ReadAll(message)
		for _, header := range regexp.MustCompile(`<header.*?</header>`).FindAll(document, -1) {
			fmt.Printf("%s\n", header)
		}
	}))
	defer service.Close()

	sender, err := usagesharing.New(usagesharing.Config{URL: service.URL, Product: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, shutDown := context.WithCancelCause(context.Background())
	ended := make(chan error)
	go func() { ended <- sender.Run(ctx) }()

	// For each request that the program serves:
	for _, agent := range []string{"Firefox", "Chrome", "Firefox"} {
		queued := sender.Add(usagesharing.Evidence{
			"header.user-agent": agent,
			"header.cookie":     "login=secret", // not shared
		})
		fmt.Println(agent, "queued:", queued)
	}

	// At the end of the program. What is queued is sent now.
	shutDown(errors.New("shutting down"))
	fmt.Println(<-ended)
	stats := sender.Stats()
	fmt.Println("delivered:", stats.Delivered, "not shared:", stats.NotShared)

	// Output:
	// Firefox queued: true
	// Chrome queued: true
	// Firefox queued: false
	// <header Name="user-agent">Firefox</header>
	// <header Name="user-agent">Chrome</header>
	// shutting down
	// delivered: 2 not shared: 1
}

// The evidence of a request that a program serves.
func ExampleSender_Add() {
	sender, err := usagesharing.New(usagesharing.Config{BlockedHTTPHeaders: []string{"cookie", "authorization"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := func(_ http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		evidence := usagesharing.Evidence{"server.client-ip": client}
		for name, values := range r.Header {
			evidence["header."+name] = strings.Join(values, ", ")
		}
		for name, values := range r.URL.Query() {
			evidence["query."+name] = values[0]
		}
		for _, cookie := range r.Cookies() {
			evidence["cookie."+cookie.Name] = cookie.Value
		}
		fmt.Println("queued:", sender.Add(evidence))
	}
	handler(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/shoes?51D_screen=800&page=2", nil))
	// Output: queued: true
}
