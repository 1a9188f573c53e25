// Package leaserenewal keeps an object on a server alive for as long as a program
// needs it.
//
// The object carries an expiry, such as spec.shutdownTime of a Kubernetes
// resource, after which the server deletes it: so nothing is left behind by a
// program that died. A program that lives moves the expiry a full TTL ahead, time
// and again:
//
//	gate, err := transport.New(transport.Config{
//		Classify: policy.ServerErrors,
//		Breaker:  leaserenewal.BreakerConfig(ttl),
//	})
//	...
//	object := leaserenewal.Object{
//		URL:   "https://api.example.com/apis/example.com/v1/sandboxes/mine",
//		Token: token, // a func(context.Context) (string, error)
//	}
//	if err := object.Validate(); err != nil {
//		return err
//	}
//	renewal, err := leaserenewal.New(leaserenewal.Config{
//		TTL:     ttl,
//		Renew:   leaserenewal.Patch(&http.Client{Transport: gate}, object),
//		OnError: func(err error) { log.Print(err) }, // or nobody is told
//		OnLost:  func() { ... },
//	})
//	...
//	// Now create the object, with an expiry a TTL ahead.
//	err = renewal.Run(ctx) // until ctx ends or the object is gone
//
// # The schedule
//
// A renewal is due half a TTL after the lease was acquired, and half a TTL after
// each renewal that succeeded; chance moves this by up to 10 % either way, so that
// programs that started together do not stay together. Each renewal sets the expiry
// to the moment of its start and a TTL more.
//
// One that fails is tried again after 1 s, and then after twice as long each time,
// up to the smaller of 30 s and a twentieth of the TTL (which also takes the place
// of the first second where it is less); chance takes up to 10 % off. So an outage
// of 10 minutes that begins when a renewal of a lease of an hour is due meets some 25
// attempts (13, if each hangs), and not one. A renewal that has not returned after an
// eighth of the TTL, or 30 s if that is less, has failed.
//
// Neither a wait nor this time is ever shorter than 1 ms (or than half of a TTL from 1 to
// 2 ms). This is no limit for a lease that a network can keep: it only bounds what a TTL
// of a few nanoseconds could do, to 1000 attempts a second.
//
// The figures are those of a renewal loop for leases in Kubernetes.
//
// # Outcomes
//
//   - Renewed: the schedule begins anew.
//   - Failed: Config.OnError is told, and the renewal is tried again.
//   - Lost: the expiry that was last set has come. Config.OnLost is told at that
//     instant, once, and the renewal is tried again all the same: while the
//     server is out of order, it may not have deleted anything either. Once a
//     renewal has succeeded, the lease can be lost, and reported, again.
//   - Gone: the server has no such object. Config.OnGone is told, and Run returns
//     [ErrGone].
//
// # Suspended machines
//
// While a machine is suspended, its monotonic clock, and with it every timer of a
// Go program, stands still on most systems; the server's clock does not. So the
// loop never sleeps for longer than the longest delay until a retry, the smaller of
// 30 s and a twentieth of the TTL, and looks at the wall clock after that. If by the
// wall clock a renewal is due, it is made then. If by the wall clock the lease has run
// out, that is reported as the loss that it is, too. A wall clock that is set back
// delays nothing; one that is set forward by mistake costs one early renewal, and if it
// goes beyond the expiry, a loss that is reported and then mended.
package leaserenewal
