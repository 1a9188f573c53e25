package apart_test

import (
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/respitehttp/respite/examples/internal/apart"
)

// A function's error is its outcome, its panic is one of Result, and neither that nor
// Goexit ends the caller.
func TestOutcome(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		result := func(f func() error) error { out := <-apart.Go(f); return out.Result() }
		assert.NoError(t, result(func() error { return nil }))
		assert.Equal(t, io.EOF, result(func() error { return io.EOF }))
		assert.ErrorContains(t, result(func() error { runtime.Goexit(); return nil }), "runtime.Goexit")
		assert.PanicsWithValue(t, boom, func() { result(func() error { panic(boom) }) })
		assert.Panics(t, func() { result(func() error { panic(nil) }) })

		apart.Go(func() error { panic("nobody waits for this") })
	})
}
