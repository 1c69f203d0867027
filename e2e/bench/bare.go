package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/x402"
)

// bareVariable makes this program the bare client: it buys like e2e/bench/peers.mjs, and prints the
// same line.
const bareVariable = "PURSER_BENCH_BARE"

// buyBare buys with net/http and package x402. It keeps no journal, checks no limit and pays
// whatever is asked: what it costs is the floor of a paid request.
func buyBare(ctx context.Context) error {
	var numbers [3]int
	for i, name := range []string{"CLIENTS", "WARMUP", "LENGTH"} {
		var err error
		if numbers[i], err = strconv.Atoi(os.Getenv(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	key, err := x402.NewKey()
	if err != nil {
		return err
	}
	c, url, api := load{clients: numbers[0]}, os.Getenv("URL"), client(new(atomic.Int64))
	from := key.Address()
	base, ok := x402.NetworkByWire("base")
	if !ok {
		return errors.New("base is not a known network")
	}
	buy := func(ctx context.Context, _ int, serial uint64, measured bool) error {
		target := numbered(url, serial, measured)
		asked, _, err := ask(ctx, api, http.MethodGet, target, "", http.StatusPaymentRequired)
		if err != nil {
			return err
		}
		challenge, err := x402.DecodeHeader(asked.Get(x402.HeaderRequired))
		if err != nil {
			return err
		}
		wanted := challenge.Accepts[0]
		a := x402.Authorization{
			From: from, To: wanted.PayTo, Value: wanted.Amount, ValidBefore: uint64(time.Now().Unix()) + 60,
			Nonce: x402.Nonce(x402.Keccak256([]byte(target))),
		}
		signature, err := key.Sign(a.Digest(base.Assets[0], base.ChainID))
		if err != nil {
			return err
		}
		payload, err := challenge.Offer(0).Payload(a, signature)
		if err != nil {
			return err
		}
		_, _, err = ask(ctx, api, http.MethodGet, target, "", http.StatusOK, x402.HeaderSignature, payload.Header())
		return err
	}
	if _, _, err := c.put(ctx, time.Duration(numbers[1])*time.Millisecond, false, buy); err != nil {
		return err
	}
	before, _ := processorTime(os.Getpid())
	took, all, err := c.put(ctx, time.Duration(numbers[2])*time.Millisecond, true, buy)
	if err != nil {
		return err
	}
	after, _ := processorTime(os.Getpid())
	done := bought{Took: milliseconds(took), CPU: milliseconds(after - before)}
	for _, t := range all {
		done.Times = append(done.Times, milliseconds(t))
	}
	_, done.MiB = memory(os.Getpid())
	return json.NewEncoder(os.Stdout).Encode(done)
}
