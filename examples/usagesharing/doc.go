// Package usagesharing sends usage data, the evidence of the requests that a program
// serves, to a service that collects it: that of 51Degrees, unless Config.URL names
// another. It never hammers that service when it is sick, never blocks the program, and
// says what became of every entry.
//
//	sender, err := usagesharing.New(usagesharing.Config{Product: "shop"})
//	if err != nil {
//		return err
//	}
//	ctx, cancel := context.WithCancel(context.Background())
//	ended := make(chan error)
//	go func() { ended <- sender.Run(ctx) }()
//	...
//	sender.Add(usagesharing.Evidence{"header.user-agent": r.UserAgent()})
//	...
//	cancel() // the last request was served: what is left is sent
//	<-ended
//
// [Sender.Add] decides whether the evidence is shared and puts it into a bounded
// queue. [Sender.Run] takes the oldest entries from it, some dozens at a time, and
// posts them as one compressed XML message. [Sender.Stats] is the account.
//
// # The back-off
//
// The requests go through a [transport.Gate]. When ten messages have failed within
// 100 s, sending pauses for 2 s, while Add goes on queueing. Then one message is the
// trial: if it fails, the next pause is longer, up to 300 s; if it succeeds, message
// follows message, with no further Add, until too few entries for one are left. A
// message that failed is not sent again, for it may be the message that is at fault. An
// answer with status 200 that breaks off counts as a failure for the pause, too, but its
// message as delivered.
//
// # The queue
//
// When it is full, new evidence is dropped. It is bounded by the number of its
// entries. An entry holds the names, and of each value as much as is sent, so what
// bounds its size is the size of a request that the program accepts
// (http.Server.MaxHeaderBytes, 1 MB by default; a kilobyte and a half is typical).
//
// # What is shared
//
// Of the [Evidence] of a request: headers but for cookies, the cookies and query
// parameters whose names begin with "51D_", and all that comes from the server or is of
// no known origin. See the fields of [Config] for more, or less; the Authorization
// header is one that you may want to block.
//
// Session tracking leaves out a request whose evidence was shared a short while ago: it
// tells of the same visitor again. Of a value, 512 characters are sent, and the element
// is marked truncated="true" if there are more, or escaped="true" if it has U+FFFD in
// the place of what XML forbids.
//
// The format of the messages, the rules of what is shared and all figures are those
// of the 51Degrees usage-sharing specification.
package usagesharing
