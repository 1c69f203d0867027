package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const (
	// defaultAdmin is where the shipped Caddyfile has the admin endpoint.
	defaultAdmin = "unix/./purser-admin.sock"
	// askTime bounds what a command asks of a running purser.
	askTime = 5 * time.Second
	// maxAnswer bounds an answer.
	maxAnswer = 16 << 20
	// notFound is what purser's API, and no admin endpoint, answers to a path that is not its own.
	notFound = "Not found"
)

// adminFlag adds the flag that names the admin endpoint.
func adminFlag(c *cobra.Command) {
	c.Flags().String("admin", "", "address of purser's admin endpoint (default: "+adminapi.AddressVariable+", else "+defaultAdmin+")")
	// Caddy's own commands call it --address.
	c.Flags().Var(c.Flags().Lookup("admin").Value, "address", "the same")
	_ = c.Flags().MarkHidden("address")
}

// adminClient asks the admin endpoint of a running purser.
type adminClient struct {
	address string // for people
	base    string
	client  *http.Client
}

// newAdminClient is a client of the endpoint at an address as Caddy writes it, such as
// unix//run/purser/admin.sock or localhost:2019.
func newAdminClient(address string) (*adminClient, error) {
	if address == "" {
		address = os.Getenv(adminapi.AddressVariable)
	}
	if address == "" {
		address = defaultAdmin
	}
	if address == off {
		return nil, fmt.Errorf("purser's admin endpoint is off (%s)", adminapi.AddressVariable)
	}
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || strings.Contains(address, "://") || !parsed.IsUnixNetwork() && !parsed.IsFdNetwork() && parsed.StartPort == 0 {
		return nil, fmt.Errorf("admin address %q: write it as unix//run/purser/admin.sock or localhost:2019", address)
	}
	network, target := "tcp", parsed.JoinHostPort(0)
	c := &adminClient{address: address, base: "http://" + target}
	switch {
	case parsed.IsUnixNetwork():
		path, _, _ := strings.Cut(parsed.Host, "|") // the mode that Caddy gives the socket
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("admin address %q: %w", address, err)
		}
		network, target = "unix", path
		c.address, c.base = "unix/"+path, "http://127.0.0.1"
	case parsed.IsFdNetwork() || parsed.PortRangeSize() != 1:
		return nil, fmt.Errorf("admin address %q: not one that can be connected to", address)
	}
	c.client = &http.Client{Timeout: askTime, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, target)
		},
		DisableKeepAlives: true,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// call makes one request. body and answer may be nil.
func (c *adminClient) call(ctx context.Context, method, path string, body, answer any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unreachable(err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return c.misunderstood(err)
	}
	return nil
}

func (c *adminClient) misunderstood(err error) error {
	return fmt.Errorf("%s: the answer is not understood, is it a purser of this version? %w", c.address, err)
}

// checkID refuses what cannot be an id before it is sent: an empty one would name the whole
// list, and a secret would be in a log.
func checkID(name, id string) error {
	switch {
	case id == "" || id == "." || id == "..":
		return fmt.Errorf("%s %q is not an id", name, id)
	case strings.HasPrefix(id, pay.KeyPrefix):
		return fmt.Errorf("%s is an API key itself: give its id ('purser keys' lists them)", name)
	}
	return nil
}

// patient is the same client for work that takes as long as it takes.
func (c *adminClient) patient() *adminClient {
	waits := *c
	client := *c.client
	client.Timeout = 0
	waits.client = &client
	return &waits
}

// send makes one request and returns an answer that is no error. body may be nil.
func (c *adminClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(adminapi.OperatorHeader, operatorName())
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var problem struct{ Error string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&problem); err != nil || problem.Error == "" || problem.Error == notFound {
		return nil, fmt.Errorf("%s answered %s: is it a purser of this version?", c.address, resp.Status)
	}
	return nil, errors.New(problem.Error)
}

// unreachable says what to do about an endpoint that does not answer.
func (c *adminClient) unreachable(err error) error {
	var op *net.OpError
	var of *url.Error
	switch late := errors.As(err, &of) && of.Timeout(); {
	case errors.As(err, &op):
		err = op.Err
	case late:
		err = fmt.Errorf("nothing within %s", askTime)
	case of != nil:
		err = of.Err
	}
	advice := "is purser running? --admin or " + adminapi.AddressVariable + " name another address"
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "only the user who runs purser may ask it"
	case strings.HasPrefix(c.address, "unix/") && errors.Is(err, fs.ErrNotExist):
		advice = "is purser running, and was it started in this folder? --admin or " + adminapi.AddressVariable + " name another address"
	}
	return fmt.Errorf("no answer from purser's admin endpoint %s: %w (%s)", c.address, err, advice)
}
