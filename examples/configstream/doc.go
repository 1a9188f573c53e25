// Package configstream follows the configuration of a cluster: it listens to a stream
// that any of the cluster's nodes serves, for days, and goes over to another node when
// one fails.
//
// The stream is the body of an HTTP answer that does not end: one JSON document a
// line, and blank lines as heartbeats while there is nothing new.
//
//	listener, err := configstream.New(configstream.Config{
//		Nodes:    func(context.Context) ([]string, error) { return nodes, nil }, // 10.0.0.1:8091 ...
//		Path:     "/pools/default/bs/main",
//		OnConfig: func(u configstream.Update) { ... },
//	})
//	...
//	err = listener.Run(ctx) // until ctx ends
//
// # Rounds
//
// A [Listener] has one stream at a time. It asks Config.Nodes for the nodes and tries
// each of them once, in random order. One that answers is listened to for as long as it
// lasts. When each has failed or ended, the listener waits and begins another round:
// after 100 ms, then 1 s, then 10 s each time. Every line that arrives, document or
// heartbeat, makes the next of these waits 100 ms again; an answer without a line does
// not. So there is no hot loop, whatever the nodes do: even where all of them send a
// line and hang up, each is asked ten times a second at most.
//
// The order is not quite random: the node that was tried last is not the first of the
// next round, if there is another; and after a stream, no node has its second turn
// before each other one has had its first.
//
// # What ends a stream
//
//   - Its end, or the end of the connection. A last line that has no newline is
//     dropped: it may be half a document.
//   - A status other than 200; redirects are not followed. That the node refuses the
//     credentials (401, 403) is logged as such.
//   - No response header within 10 s, or no byte of the body for 5 minutes. There is
//     no limit for the stream as a whole, and none while OnConfig runs.
//   - A line that is longer than 20 MiB, or is not JSON.
//   - The end of Run's context. Nothing is logged then, and no other node is tried.
//
// # Documents
//
// $HOST in a document stands for the node that sent it: a node does not know by what
// address it is reached. It is replaced by the host of the node's address; an IPv6
// address gets brackets where a colon follows, so "$HOST:8091" is right for each.
//
// Documents have an order: that of the numbers revEpoch and then rev at their top
// level ([Revision]). One that is not newer than the one held is dropped, so that a node
// that lags behind takes nothing back. One without an integer rev, which need not be an
// object, is always taken, and so is the one after it.
//
// The figures, and the form of the stream, are those of the HTTP config-streaming
// listener for Couchbase clusters.
package configstream
