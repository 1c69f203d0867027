// Package agent is a client of a running purser with one API key, as an agent has it: it asks sellers
// through the proxy, and purser's REST API at the same address. It has none of the operator's powers.
package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer of purser itself.
const maxAnswer = 16 << 20

// Client asks with one key. Its errors never hold the key.
type Client struct {
	Proxy     *url.URL // without credentials
	Key, Task string
	Root      []byte        // PEM of the interception root; empty when nothing is intercepted
	Timeout   time.Duration // of a whole exchange; 0: none
}

// ErrUnknownKey says that purser does not know the key of the client.
var ErrUnknownKey = errors.New("purser does not know the key: it may be revoked, or the key of another purser")

// Refused is an answer of purser itself in place of the seller's.
type Refused struct {
	Code         int    // of the answer
	Status       string // such as "403 Forbidden"
	Reason, Text string // Purser-Error, and the words for people
	Payment      string // id of the payment that was sent; empty if none was
}

func (e *Refused) Error() string {
	text := fmt.Sprintf("purser answered %s (%s)", e.Status, e.Reason)
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Payment != "" {
		text += ", payment " + e.Payment
	}
	return text
}

// Do sends a request through the proxy, on a connection of its own, and follows no redirection. An
// answer of purser itself is a [*Refused].
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.client(c.through()).Do(r)
	if err != nil {
		return nil, c.unanswered(err)
	}
	if err := refusalOf(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// through returns a transport of requests through the proxy.
func (c *Client) through() *http.Transport {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(c.Root)
	proxy := *c.Proxy
	proxy.User = url.UserPassword(c.Key, c.Task)
	return &http.Transport{
		Proxy: http.ProxyURL(&proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			return refusalOf(resp)
		},
	}
}

// unfollowed keeps a client from following redirects.
func unfollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// refusalOf returns the [*Refused] or [ErrUnknownKey] that an answer of purser's own is, or nil.
func refusalOf(resp *http.Response) error {
	reason := resp.Header.Get("Purser-Error")
	switch {
	case reason == "":
		return nil
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return ErrUnknownKey
	}
	var problem struct{ Error string }
	_ = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&problem) // the headers say the rest
	return &Refused{resp.StatusCode, resp.Status, reason, problem.Error, resp.Header.Get("Purser-Payment")}
}

// Read asks the REST API, and decodes its answer. The path begins with a slash.
func (c *Client) Read(ctx context.Context, path string, query url.Values, answer any) error {
	target := c.Proxy.JoinPath(path)
	target.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-Api-Key", c.Key)
	resp, err := c.client(&http.Transport{}).Do(r)
	if err != nil {
		return c.unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return ErrUnknownKey
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Error, Detail string }
		_ = json.Unmarshal(text, &problem)
		if problem.Detail != "" {
			problem.Error += ": " + problem.Detail
		}
		return fmt.Errorf("purser answered %s to %s: %s", resp.Status, path, problem.Error)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer to %s is not understood, is it a purser of this version? %w", path, err)
	}
	return nil
}

func (c *Client) client(t *http.Transport) *http.Client {
	t.DisableKeepAlives = true
	return &http.Client{
		Timeout: c.Timeout, Transport: t, CheckRedirect: unfollowed,
	}
}

// unanswered explains a request that got no answer.
func (c *Client) unanswered(err error) error {
	if refused, is := errors.AsType[*Refused](err); is {
		return refused
	}
	if errors.Is(err, ErrUnknownKey) {
		return ErrUnknownKey
	}
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err // without the URL of the proxy, which has the key
	}
	return fmt.Errorf("no answer through purser at %s: %w", c.Proxy, hidden{err, c.Key})
}

// hidden is an error whose text does not have the key.
type hidden struct {
	error
	key string
}

func (h hidden) Error() string { return strings.ReplaceAll(h.error.Error(), h.key, "…") }
func (h hidden) Unwrap() error { return h.error }
