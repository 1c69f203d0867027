package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// samples lists the purchases at the start: the task of a proxy client, and its request.
var samples = []struct{ task, path, body string }{
	{"weather-report", "/weather", ""},
	{"weather-report", "/weather?day=tomorrow", ""},
	{"research", "/echo", "a question"},
	{"research", "/stream", ""},
	{"research", "/weather?day=friday", ""},
}

// buySamples pays for the samples through the proxy, as agents do. It then refills the wallet to
// amount.
func (s *running) buySamples(ctx context.Context, wallet x402.Address, amount money.Amount) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var buying sync.WaitGroup
	errs := make([]error, len(samples))
	for i, sample := range samples {
		buying.Go(func() { errs[i] = s.buy(ctx, sample.task, sample.path, sample.body) })
	}
	buying.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	left, err := s.world.Balance(ctx, wallet)
	if err != nil {
		return err
	}
	spent, _ := amount.Sub(left) // no other payment came in
	return s.world.Fund(ctx, wallet, spent)
}

// buy makes one request that purser pays for.
func (s *running) buy(ctx context.Context, task, path, body string) error {
	proxy, err := url.Parse(s.about.API)
	if err != nil {
		return err
	}
	proxy.User = url.UserPassword(s.about.Key, task)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, s.about.Seller+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("paying for %s: %w", path, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return fmt.Errorf("paying for %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("paying for %s: %s", path, resp.Status)
	}
	return nil
}
