package forward

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
)

// caller holds the key, its secret and the task that a proxy request pays with.
type caller struct {
	key    pay.Key
	secret string
	task   string
	guest  bool // the request may have the key of a guest
}

// refusal is an answer of purser's own instead of the upstream's.
type refusal struct {
	status int
	text   string
	reason string
	header http.Header // more headers
	cause  error       // for the log
}

// How often a client may be wrong about its API key.
const (
	failuresPerMinute = 30
	failuresAtOnce    = 20
)

// Reasons of refusals.
const (
	reasonCredentials = "proxy-credentials" //nolint:gosec // a reason word
	reasonTask        = "task-label"
	reasonRelay       = "relay-not-allowed"
	reasonTooMany     = "too-many-failed-logins"
	reasonBadRequest  = "bad-request"
	reasonLoop        = "loop"
	reasonMethod      = "method"
	reasonTunnels     = "too-many-tunnels"
	reasonProtocol    = "http-version"

	textTunnels = "Too many tunnels are open"
)

var (
	otherProtocol = &refusal{status: http.StatusHTTPVersionNotSupported, reason: reasonProtocol, text: "This proxy speaks HTTP/1.1"}
	inALoop       = &refusal{status: http.StatusLoopDetected, reason: reasonLoop, text: "This request has been through this proxy already"}
	notForThisKey = &refusal{
		status: http.StatusForbidden, reason: reasonRelay,
		text: "A key of POST /api-keys may not use this proxy until the operator lets it: purser limits KEY --door proxy --door api",
	}
	needsCredentials = &refusal{
		status: http.StatusProxyAuthRequired, reason: reasonCredentials,
		text:   "This proxy needs an API key: http://<API key>[:<task>]@<host>:<port> as the proxy's URL",
		header: http.Header{"Proxy-Authenticate": {`Basic realm="purser", charset="UTF-8"`}},
	}
)

func badRequest(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, reason: reasonBadRequest, text: text}
}

func notRelayed(r *http.Request) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, reason: reasonMethod, text: r.Method + " is not relayed"}
}

// busy refuses what may succeed a little later.
func busy(reason, text string, cause error) *refusal {
	return &refusal{
		status: http.StatusServiceUnavailable, reason: reason, text: text, header: http.Header{"Retry-After": {"5"}}, cause: cause,
	}
}

func unavailable(cause error) *refusal {
	return busy(proxy.DeclinedUnavailable, "Service unavailable", cause)
}

// authenticate finds the key that a proxy request pays with: the user name of its Basic
// credentials, with a task label, or nothing, as the password. A malformed label is answered with
// 400, because 407 would make clients ask for another password.
//
// The stand-in key, if there is one, serves clients on this machine that send neither credentials,
// right or wrong, nor forwarding headers.
func (f *Proxy) authenticate(r *http.Request) (who caller, no *refusal) {
	if who, no = f.login(r); no != nil {
		return who, no
	}
	who.guest = f.admits(r)
	return who, who.relays()
}

// Guests says from where keys that strangers may have made use a proxy.
type Guests int

// Values of Guests. The peer of a connection is of this machine if its address is a loopback one, or it
// has none, as on a socket. A request that another proxy has forwarded is not of this machine.
const (
	GuestsEverywhere Guests = iota
	GuestsHere              // from this machine
	NoGuests
)

// admits reports whether a request may come with the key of a guest.
func (f *Proxy) admits(r *http.Request) bool {
	peer := peerOf(r)
	return f.guests == GuestsEverywhere || f.guests == GuestsHere && !forwarded(r.Header) && (peer.IsLoopback() || !peer.IsValid())
}

// relays refuses a key that may not use the proxy.
func (c caller) relays() *refusal {
	if c.guest || c.key.Relays() {
		return nil
	}
	return notForThisKey
}

func (f *Proxy) login(r *http.Request) (caller, *refusal) {
	values := r.Header.Values("Proxy-Authorization")
	if len(values) == 0 && f.standIn != "" && !forwarded(r.Header) && peerOf(r).IsLoopback() {
		return f.resolve(r.Context(), netip.Addr{}, f.standIn, "")
	}
	if len(values) != 1 {
		return caller{}, needsCredentials
	}
	secret, task, ok := basicCredentials(values[0])
	switch {
	case !ok:
		return caller{}, needsCredentials
	case task != "" && !policy.ValidTask(task):
		return caller{}, &refusal{
			status: http.StatusBadRequest, reason: reasonTask,
			text: "The proxy password is a task label: 1 to 64 characters of A-Z a-z 0-9 . _ -",
		}
	}
	return f.resolve(r.Context(), peerOf(r), secret, task)
}

// resolve looks a secret up, unless its peer has failed too often.
func (f *Proxy) resolve(ctx context.Context, peer netip.Addr, secret, task string) (caller, *refusal) {
	guess := pay.HashOf(secret)
	if wait := f.logins.Blocked(peer, guess, f.now()); wait > 0 {
		return caller{}, &refusal{
			status: http.StatusTooManyRequests, reason: reasonTooMany, text: "Too many requests",
			header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}},
		}
	}
	key, err := f.payer.Resolve(ctx, secret)
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		f.logins.Failed(peer, f.now())
		return caller{}, needsCredentials
	case err != nil:
		return caller{}, unavailable(err)
	}
	f.logins.Succeeded(guess, f.now())
	return caller{key: key, secret: secret, task: task}, nil
}

// basicCredentials reads a Basic header. Without a colon all of it is the user name.
func basicCredentials(value string) (user, password string, ok bool) {
	scheme, encoded, found := strings.Cut(value, " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password, user != ""
}

// peerOf returns the address of the connection's other end; the zero address if it has none.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}
