package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

const (
	// funds is the wallet's first balance in USDC of the sandbox. decimals is the number of its
	// decimals.
	funds    = "100"
	decimals = 6
	// callTime bounds a call to purser's API.
	callTime = 30 * time.Second
	// maxAnswer bounds the answer to a call, in bytes.
	maxAnswer = 1 << 20
)

// client calls one of purser's HTTP APIs. It uses no proxy, whatever the environment names.
type client struct {
	api  string
	http *http.Client
}

// apiClient returns a client of purser's REST API.
func apiClient(api string) client {
	return client{api, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// adminClient returns a client of Caddy's admin endpoint.
func adminClient(socket string) client {
	return client{"http://admin", &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}}
}

// execWallet returns the wallet of the key that `purser exec` pays with. purser makes it on the
// first request. c must be an admin client.
func (c client) execWallet(ctx context.Context) (x402.Address, error) {
	var exec struct {
		Address x402.Address `json:"address"`
	}
	err := c.call(ctx, http.MethodPost, "/purser/exec", "", nil, &exec)
	return exec.Address, err
}

// plans lists the plans that the organization moves to when it has too many keys. With -data, each
// run adds a key.
var plans = []string{"DEVELOPER", "AGENCY"}

// giveKey adds a key to the organization of the user of the sandbox's identity provider. It returns
// false when even the largest plan has no room. c must be an admin client.
func (c client) giveKey(ctx context.Context, w *sandbox.World, key string) (bool, error) {
	var person struct {
		Organization struct {
			ID   string `json:"id"`
			Plan string `json:"plan"`
			Keys struct {
				Used int `json:"used"`
				Most int `json:"most"`
			} `json:"keys"`
		} `json:"organization"`
	}
	err := c.call(ctx, http.MethodPost, "/purser/organizations", "", map[string]string{
		"issuer": w.IdentityURL(), "subject": w.User.Subject, "name": w.User.Name, "email": w.User.Email,
	}, &person)
	if err != nil {
		return false, err
	}
	org := &person.Organization
	path := "/purser/organizations/" + org.ID
	for _, plan := range plans {
		if org.Plan == plan || org.Plan == plans[len(plans)-1] || org.Plan != "FREE" && org.Keys.Used < org.Keys.Most {
			continue
		}
		if err := c.call(ctx, http.MethodPut, path+"/plan", "", map[string]string{"plan": plan}, org); err != nil {
			return false, err
		}
	}
	if org.Keys.Used >= org.Keys.Most {
		return false, nil
	}
	return true, c.call(ctx, http.MethodPost, path+"/keys", "", map[string]string{"key": key}, &struct{}{})
}

// newKey makes an API key.
func (c client) newKey(ctx context.Context) (string, error) {
	var key struct {
		Key string `json:"key"`
	}
	err := c.call(ctx, http.MethodPost, "/api-keys", "", map[string]string{"label": "sandbox"}, &key)
	return key.Key, err
}

// newWallet makes a wallet for a key and returns its address.
func (c client) newWallet(ctx context.Context, key string) (x402.Address, error) {
	var wallet struct {
		Address x402.Address `json:"address"`
	}
	err := c.call(ctx, http.MethodPost, "/wallets", key, map[string]string{"network": "base"}, &wallet)
	return wallet.Address, err
}

// healthy checks that purser reaches its facilitator and its chain.
func (c client) healthy(ctx context.Context) error {
	type part struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	var health struct {
		Facilitator part `json:"facilitator"`
		RPC         part `json:"rpc"`
	}
	if err := c.call(ctx, http.MethodGet, "/health", "", nil, &health); err != nil {
		return err
	}
	if !health.Facilitator.OK || !health.RPC.OK {
		return fmt.Errorf("purser does not reach its world: facilitator %q, RPC %q", health.Facilitator.Error, health.RPC.Error)
	}
	return nil
}

// call makes one call. An answer with a status of 400 or more is an error.
func (c client) call(ctx context.Context, method, path, key string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var sent []byte
	if body != nil {
		sent, _ = json.Marshal(body) // cannot fail: it holds texts
	}
	r, err := http.NewRequestWithContext(ctx, method, c.api+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
