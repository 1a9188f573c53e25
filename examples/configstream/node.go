package configstream

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// node is a node of the cluster, for the length of a round.
type node struct {
	address string // as Config.Nodes gave it
	url     string // of the stream
	name    string // for the log, without anything secret
	host    string // what $HOST stands for: no port, no brackets
}

// The errors of package url name what may be secret; these do not.
var (
	errAddress = errors.New("its address is neither an http or https URL nor a host")
	errPath    = errors.New("not a path")
)

// parseNode returns the node at an address. The path is appended.
func parseNode(address string, path *url.URL) (node, error) {
	u, err := url.Parse(withScheme(address))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return node{}, errAddress
	}
	n := node{address: address, name: u.Scheme + "://" + u.Host, host: u.Hostname()}
	if path.Path != "" {
		u = u.JoinPath(path.EscapedPath())
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = strings.Trim(u.RawQuery+"&"+path.RawQuery, "&")
	u.Fragment, u.ForceQuery = "", false
	n.url = u.String()
	return n, nil
}

// withScheme returns an address as a URL: without a scheme it is http.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return (&url.URL{Scheme: "http", Host: "[" + address + "]"}).String()
	}
	if _, err := netip.ParseAddrPort(address); err == nil {
		return (&url.URL{Scheme: "http", Host: address}).String()
	}
	return "http://" + address
}

// parsePath returns the path and the query of s.
func parsePath(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, errPath
	}
	return u, nil
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
