package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const (
	askTime   = 5 * time.Second
	maxAnswer = 16 << 20
	notFound  = "Not found" // to unknown paths of purser's REST API, and of no admin endpoint
)

// adminClient asks the admin endpoint of a running purser.
type adminClient struct {
	address string // for people
	base    string
	by      string // the operator who uses the command
	client  *http.Client
	dry     bool // only what changes nothing is sent
	// moved says why purser does not start in this folder any more. Nil: another folder's purser is asked.
	moved func() error
}

// newAdminClient is a client of the endpoint at an address as Caddy writes it, such as
// unix//run/purser/admin.sock or localhost:2019.
func (env *Env) newAdminClient(address string) (*adminClient, error) {
	named := address != ""
	if address = cmp.Or(address, env.Getenv(adminapi.AddressVariable), env.defaultAdmin()); address == off {
		return nil, fmt.Errorf("purser's admin endpoint is off (%s)", adminapi.AddressVariable)
	}
	network, target, err := splitAddress(address)
	if err != nil {
		return nil, fmt.Errorf("admin address %q: %w", address, err)
	}
	c := &adminClient{address: address, base: "http://" + target, by: env.operatorName()}
	if network == "unix" {
		if target, err = filepath.Abs(env.path(target)); err != nil {
			return nil, fmt.Errorf("admin address %q: %w", address, err)
		}
		c.address, c.base = "unix/"+target, "http://127.0.0.1"
	}
	if !named {
		c.moved = func() error {
			return boltstore.Moved(filepath.Join(env.path(cmp.Or(env.Getenv(dataDirVariable), env.defaultDataDir())), databaseName))
		}
	}
	c.client = env.httpClient(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, target)
		},
		DisableKeepAlives: true,
	})
	return c, nil
}

func (env *Env) askTime() time.Duration { return cmp.Or(env.AskTime, askTime) }

// httpClient returns a client that follows no redirection.
func (env *Env) httpClient(t *http.Transport) *http.Client {
	return &http.Client{
		Timeout: env.askTime(), Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// splitAddress reads an address as Caddy writes them: a network, tcp unless it is named, and behind
// a slash the path of a socket, or a host with a port.
func splitAddress(address string) (network, target string, err error) {
	network, target, named := strings.Cut(address, "/")
	if !named {
		network, target = "tcp", address
	}
	switch network = strings.ToLower(network); network {
	case "unix":
		path, _, _ := strings.Cut(target, "|") // the mode that Caddy gives the socket
		return network, path, nil
	case "fd", "fdgram", "unixgram", "unixpacket":
		return "", "", errors.New("not one that can be connected to")
	}
	host, port, err := net.SplitHostPort(target)
	if first, last, some := strings.Cut(port, "-"); err == nil && some && first != last {
		return "", "", errors.New("not one that can be connected to")
	}
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || strings.Contains(host, "/") {
		return "", "", errors.New("write it as unix//run/purser/admin.sock or localhost:2019")
	}
	return "tcp", net.JoinHostPort(host, port), nil
}

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

// send makes one request and returns an answer that is no error. body may be nil.
func (c *adminClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	if c.dry && !reads(method, path) {
		return nil, &unsentError{path}
	}
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
	r.Header.Set(adminapi.OperatorHeader, c.by)
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

// errNoAnswer says that nothing answers where purser is looked for. It may come up later.
var errNoAnswer = errors.New("no answer from purser")

func (c *adminClient) unreachable(err error) error {
	of, asked := errors.AsType[*url.Error](err)
	if op, is := errors.AsType[*net.OpError](err); is {
		err = op.Err
	} else if asked && of.Timeout() {
		err = fmt.Errorf("nothing within %s", c.client.Timeout)
	} else if asked {
		err = of.Err
	}
	if c.moved != nil {
		if moved := c.moved(); moved != nil {
			return fmt.Errorf("%w: %w", errNoAnswer, moved)
		}
	}
	advice := "is purser running? --admin or " + adminapi.AddressVariable + " name another address"
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "only the user who runs purser may ask it"
	case strings.HasPrefix(c.address, "unix/") && errors.Is(err, fs.ErrNotExist):
		advice = "is purser running, and was it started in this folder? --admin or " + adminapi.AddressVariable + " name another address"
	}
	return fmt.Errorf("%w's admin endpoint %s: %w (%s)", errNoAnswer, c.address, err, advice)
}
