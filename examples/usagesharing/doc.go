// Package usagesharing sends usage data, the evidence of the requests that a
// program serves, to a service that collects it. It never hammers that service
// when it is sick, never blocks the program, and says what became of every entry.
//
//	sender, err := usagesharing.New(usagesharing.Config{Product: "shop"})
//	if err != nil {
//		return err
//	}
//	go sender.Run(ctx)
//	...
//	sender.Add(usagesharing.Evidence{"header.user-agent": r.UserAgent()})
//
// [Sender.Add] decides whether the evidence is shared and puts it into a bounded
// queue. [Sender.Run] takes the oldest entries from it, some dozens at a time, and
// posts them as one compressed XML message. [Sender.Stats] is the account.
//
// # The back-off
//
// The requests go through a [transport.Gate]. When ten messages have failed within
// 100 s, sending pauses for 2 s, while Add goes on queueing. Then one message is the
// trial: if it fails, the next pause is longer, up to 300 s; if it succeeds,
// everything that was queued is sent, with no further Add. A message that failed is
// not sent again, for it may be the message that is at fault.
//
// # The queue
//
// When it is full, new evidence is dropped. It is bounded by the number of its
// entries. An entry holds the names, and of each value no more than is sent, so
// what bounds its size is the size of a request that the program accepts
// (http.Server.MaxHeaderBytes, 1 MB by default; a kilobyte is typical).
//
// The format of the messages, the rules of what is shared and all figures are those
// of the 51Degrees usage-sharing specification.
package usagesharing
