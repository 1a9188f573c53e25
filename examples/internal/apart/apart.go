// Package apart runs a function of the user in a goroutine of its own, so that a loop
// need not wait for it for ever.
package apart

import "errors"

var errGoexit = errors.New("the function ended its goroutine (runtime.Goexit)")

// Outcome is what became of a function.
type Outcome struct {
	err      error
	panicked any
}

// Result returns the error of the function, which is not nil if it called
// runtime.Goexit. If the function panicked, so does Result, with the same value; the
// trace is then that of the caller of Result.
func (o Outcome) Result() error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// Go calls f. The goroutine ends with f, whether anybody waits for the outcome or not.
func Go(f func() error) <-chan Outcome {
	settled := make(chan Outcome, 1)
	go func() {
		out := Outcome{err: errGoexit} // unless f returns
		defer func() {
			out.panicked = recover()
			settled <- out
		}()
		out.err = f()
	}()
	return settled
}
