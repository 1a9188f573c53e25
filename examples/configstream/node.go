package configstream

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/respitehttp/respite/examples/internal/answer"
)

// node is a node of the cluster, for the length of a round.
type node struct {
	address string // as Config.Nodes gave it
	url     string // of the stream
	name    string // for the log, without anything secret
	host    string // what $HOST stands for: no port, no brackets
}

// errAddress shows nothing of the address: that may be secret.
var errAddress = errors.New("its address is neither an http or https URL nor a host")

// parseNode returns the node at an address. The path is appended.
func parseNode(address string, path *url.URL) (node, error) {
	u, err := url.Parse(withScheme(address))
	if err != nil || answer.URLFault(u.String()) != "" || strings.HasSuffix(u.Host, ":") { // http:/h, say
		return node{}, errAddress
	}
	n := node{address: address, name: u.Scheme + "://" + u.Host, host: u.Hostname()}
	if path.Path != "" || u.Path == "" {
		u.RawPath = strings.TrimRight(u.EscapedPath(), "/") + "/" + strings.TrimLeft(path.EscapedPath(), "/")
		u.Path, _ = url.PathUnescape(u.RawPath) // both parts are escaped
	}
	u.RawQuery = strings.Trim(u.RawQuery+"&"+path.RawQuery, "&")
	u.Fragment, u.ForceQuery = "", false
	n.url = u.String()
	return n, nil
}

// escapedZone is the zone of an IPv6 address as URLs have it. What has no letter after
// %25 is the interface with that number.
var escapedZone = regexp.MustCompile(`%25[A-Za-z]`)

// withScheme returns an address as a URL: without a scheme it is http.
func withScheme(address string) string {
	if scheme, _, ok := strings.Cut(address, "://"); ok && !strings.ContainsAny(scheme, ":/?") {
		return address
	}
	host, rest := address, ""
	if i := strings.IndexAny(address, "/?#"); i >= 0 {
		host, rest = address[:i], address[i:]
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	if strings.HasPrefix(host, "[") && !escapedZone.MatchString(host) {
		host = strings.Replace(host, "%", "%25", 1)
	}
	return "http://" + host + rest
}

// parsePath returns the path and the query of s, and reports whether it is nothing but
// that.
func parsePath(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Fragment != "" || strings.Contains(u.RawQuery, " ") {
		return nil, false
	}
	return u, true
}

var errNotJSON = errors.New("a line is not JSON")

// read returns the configuration that a document of the node is.
func (n node) read(document []byte) (Update, error) {
	if !json.Valid(document) {
		return Update{}, errNotJSON
	}
	return Update{Node: n.address, Config: n.expand(document), Revision: revisionOf(document)}, nil
}

// expand returns a document with the node's host in place of $HOST.
func (n node) expand(document []byte) json.RawMessage {
	quoted, _ := json.Marshal(n.host)
	host := string(quoted[1 : len(quoted)-1])
	withColon := host + ":"
	if strings.Contains(host, ":") {
		withColon = "[" + host + "]:"
	}
	return json.RawMessage(strings.NewReplacer("$HOST:", withColon, "$HOST", host).Replace(string(document)))
}
