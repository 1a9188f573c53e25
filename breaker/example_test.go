package breaker_test

import (
	"errors"
	"fmt"

	"github.com/respitehttp/respite/breaker"
)

func Example() {
	b, err := breaker.New(breaker.Config{FailuresToEnterRecovery: 2})
	if err != nil {
		panic(err)
	}
	guarded := func(send func() error) error {
		call, err := b.Allow()
		if err != nil {
			return err
		}
		defer call.Cancel()
		if err := send(); err != nil {
			call.Fail(err)
			return err
		}
		call.Succeed()
		return nil
	}
	for range 3 {
		err := guarded(func() error { return errors.New("no answer") })
		fmt.Println(errors.Is(err, breaker.ErrOpen), b.State())
	}
	// Output:
	// false closed
	// false open
	// true open
}
