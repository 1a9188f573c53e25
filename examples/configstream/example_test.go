package configstream_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/respitehttp/respite/examples/configstream"
)

// A listener that follows one node until it has seen the second configuration. The
// document that is older than the one held is dropped.
func Example() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"rev":7,"nodes":["$HOST:11210"]}`+"\n\n"+`{"rev":6}`+"\n"+`{"rev":8}`+"\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer node.Close()

	ctx, cancel := context.WithCancel(context.Background())
	listener, err := configstream.New(configstream.Config{
		Nodes: func(context.Context) ([]string, error) { return []string{node.URL}, nil },
		Path:  "/pools/default/bs/main",
		OnConfig: func(u configstream.Update) {
			fmt.Println(u.Revision.Rev, string(u.Config))
			if u.Revision.Rev == 8 {
				cancel()
			}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Run(ctx))
	// Output:
	// 7 {"rev":7,"nodes":["127.0.0.1:11210"]}
	// 8 {"rev":8}
	// context canceled
}

// Several faults of a configuration are told at once.
func ExampleNew() {
	_, err := configstream.New(configstream.Config{Path: "http://10.0.0.1/stream", MaxLine: -1})
	fmt.Println(err)
	// Output:
	// configstream: Nodes is nil; accepted: a function
	// configstream: Path is not a path (it is not shown, since it may hold a secret); accepted: the path of a URL, with or without a query, in which a space is %20
	// configstream: MaxLine is -1; accepted: > 0, or 0 for 20971520
}
