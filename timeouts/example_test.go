package timeouts_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/respitehttp/respite/timeouts"
)

func ExampleTransport() {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()

	client := &http.Client{Transport: &timeouts.Transport{
		Limits: timeouts.Limits{Header: 10 * time.Millisecond, Idle: time.Minute},
	}}
	_, err := client.Get(silent.URL)
	var over *timeouts.Error
	if errors.As(err, &over) {
		fmt.Println(over.Phase, over.Limit)
	}
	// Output: header 10ms
}
