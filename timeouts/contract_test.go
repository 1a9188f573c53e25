package timeouts_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
)

func TestContract(t *testing.T) {
	for name, limits := range map[string]timeouts.Limits{
		"no limits": {},
		"total":     {Total: time.Minute},
		"idle":      {Idle: time.Minute},
		"all":       {Total: time.Minute, Header: time.Minute, Idle: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
				return &timeouts.Transport{Base: base, Limits: limits}
			})
		})
	}
}
