package cli

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Bounds of a file with a key, and of the interception root.
const (
	maxKeyFile = 4 << 10
	maxRoot    = 64 << 10
)

// accessFlags holds the flags that say who pays, and where.
type accessFlags struct{ key, keyFile, task, proxy string }

// execTask labels what `purser exec` pays for, unless the caller names a task.
const execTask = "exec"

func newAccessFlags(c *cobra.Command, task string) *accessFlags {
	f := new(accessFlags)
	c.Flags().StringVar(&f.key, "key", "", "API key that pays (default: purser's exec key)")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "file with the API key that pays, which keeps it out of the shell's history")
	c.Flags().StringVar(&f.task, "task", task,
		"label of the budget that payments fall under: 1 to 64 characters of A-Z a-z 0-9 . _ -")
	c.Flags().StringVar(&f.proxy, "proxy", "", "URL of the proxy (default: as purser says; with a key of yours "+
		"http://PURSER_BIND:PURSER_PORT if one is set, else as purser says, else http://"+DefaultBind+":"+DefaultPort+")")
	adminFlag(c)
	return f
}

type access struct {
	proxy     *url.URL
	key, task string
	root      []byte   // PEM; empty when nothing is intercepted
	notice    string   // for people
	used      []string // names of the variables that purser and its configuration use; nil: it was not asked
}

// client returns a client of the purser that was found. The time bounds each exchange.
func (a access) client(bound time.Duration) *agent.Client {
	return &agent.Client{Proxy: a.proxy, Key: a.key, Task: a.task, Root: a.root, Timeout: bound}
}

func (env *Env) findAccess(ctx context.Context, c *cobra.Command, f *accessFlags) (a access, err error) {
	a.task = f.task
	if !policy.ValidTask(a.task) {
		return a, fmt.Errorf("--task %q is not 1 to 64 characters of A-Z a-z 0-9 . _ -", a.task)
	}
	if f.proxy != "" {
		if a.proxy, err = parseProxyURL(f.proxy); err != nil {
			return a, err
		}
	}
	switch file, key := c.Flags().Changed("key-file"), c.Flags().Changed("key"); {
	case file && key:
		err = errors.New("--key or --key-file, not both")
	case file:
		text, err := env.readKeyFile(f.keyFile)
		if err != nil {
			return a, fmt.Errorf("--key-file: %w", err)
		}
		err = a.withKey(ctx, c, env, "key-file", text)
		return a, err
	case key:
		err = a.withKey(ctx, c, env, "key", f.key)
	default:
		err = a.withExecKey(ctx, c, env)
	}
	return a, err
}

// readKeyFile is the key in a file. Its errors do not repeat what is in it.
func (env *Env) readKeyFile(path string) (string, error) {
	f, err := os.Open(env.path(path))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return strings.TrimSpace(string(text)), err
}

// withKey needs nothing but the proxy. The flag is the one that names the key.
func (a *access) withKey(ctx context.Context, c *cobra.Command, env *Env, flag, key string) (err error) {
	if !pay.ValidSecret(key) {
		return fmt.Errorf("--%s is not an API key: 8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -", flag)
	}
	if a.proxy == nil {
		if a.proxy, err = env.likelyProxyURL(ctx, c); err != nil {
			return err
		}
	}
	a.key = key
	a.root, err = env.fetchRoot(ctx, a.proxy)
	return err
}

func (a *access) withExecKey(ctx context.Context, c *cobra.Command, env *Env) error {
	client, err := env.adminOf(c)
	if err != nil {
		return err
	}
	var exec adminapi.Exec
	if err := client.call(ctx, http.MethodPost, "/purser/exec", struct{}{}, &exec); err != nil {
		return err
	}
	if a.proxy == nil {
		if exec.Proxy == "" {
			return errors.New("purser's proxy listens on no address that programs can be given: name one with --proxy")
		}
		if a.proxy, err = parseProxyURL(exec.Proxy); err != nil {
			return err
		}
	}
	a.key, a.root, a.notice, a.used = exec.Key, []byte(exec.CA), fundNotice(exec), append([]string{}, exec.Variables...)
	return nil
}

func fundNotice(e adminapi.Exec) string {
	switch {
	case e.Address == nil:
		return "nothing can be paid: the exec key's wallet has no address, because no wallet provider is configured (PURSER_WALLETS)"
	case e.Balance == nil:
		return fmt.Sprintf("payments come from %s on %s: fund it with USDC unless you have; its balance is not known here", *e.Address, e.Network)
	}
	if balance, err := money.Parse(*e.Balance); err == nil && !balance.IsZero() {
		return ""
	}
	return fmt.Sprintf("fund %s with USDC on %s: its balance is 0, so nothing can be paid", *e.Address, e.Network)
}

func parseProxyURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// Not the error itself: it repeats the URL, which may hold a key.
		return nil, errors.New("--proxy is not a URL such as http://127.0.0.1:8402")
	case u.User != nil:
		return nil, errors.New("--proxy takes no credentials: give the key with --key")
	case u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--proxy %q is not a URL such as http://127.0.0.1:8402", text)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// likelyProxyURL returns the proxy's URL that the variables name, else the one of the purser that runs
// here. Other users cannot ask that one, and get the default.
func (env *Env) likelyProxyURL(ctx context.Context, c *cobra.Command) (*url.URL, error) {
	if env.Getenv("PURSER_BIND") == "" && env.Getenv("PURSER_PORT") == "" {
		var s adminapi.Status
		if client, err := env.adminOf(c); err == nil && client.call(ctx, http.MethodGet, "/purser/status", nil, &s) == nil && s.Proxy != "" {
			return parseProxyURL(s.Proxy)
		}
	}
	return env.defaultProxyURL()
}

// defaultProxyURL returns the proxy's URL in the shipped Caddyfile.
func (env *Env) defaultProxyURL() (*url.URL, error) {
	bind, port := cmp.Or(env.Getenv("PURSER_BIND"), DefaultBind), cmp.Or(env.Getenv("PURSER_PORT"), DefaultPort)
	if ip, err := netip.ParseAddr(bind); err == nil && ip.IsUnspecified() {
		bind = DefaultBind
		if ip.Is6() {
			bind = netip.IPv6Loopback().String()
		}
	}
	u, err := parseProxyURL("http://" + net.JoinHostPort(bind, port))
	if err != nil {
		return nil, fmt.Errorf("PURSER_BIND %q and PURSER_PORT %q are no address: name the proxy with --proxy", bind, port)
	}
	return u, nil
}

// fetchRoot asks the proxy for its interception root; there is none when it does not intercept.
func (env *Env) fetchRoot(ctx context.Context, proxy *url.URL) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, proxy.JoinPath(rootPath).String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := env.httpClient(&http.Transport{DisableKeepAlives: true}).Do(r)
	if err != nil {
		if of, is := errors.AsType[*url.Error](err); is {
			err = of.Err
		}
		return nil, fmt.Errorf("%w at %s: %w (is it running? --proxy names another address)", errNoAnswer, proxy, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRoot))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.URL, err)
	}
	switch block, _ := pem.Decode(text); {
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %s: is it purser? --proxy names another address", r.URL, resp.Status)
	case block == nil || block.Type != "CERTIFICATE":
		return nil, fmt.Errorf("%s is not a certificate: is it purser? --proxy names another address", r.URL)
	}
	return text, nil
}
