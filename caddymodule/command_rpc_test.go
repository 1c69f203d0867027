package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
)

// The operator sees the block that the RPC is held against, and gets out if it is not the chain's.
func TestRPCTrust(t *testing.T) {
	_, socket := bookSite(t)
	if text := told(t, socket, "rpc"); !strings.Contains(text, "taken on trust") {
		t.Errorf("%s", text)
	}
	seen := pay.ChainBlock{Number: 42, Hash: "0x" + strings.Repeat("ab", 32), Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	store := pooledAt(t).store
	if err := store.KeepSafeBlock(t.Context(), "base", nil, seen); err != nil {
		t.Fatal(err)
	}
	got := decode[adminapi.RPCStatus](t, told(t, socket, "rpc", "--json"))
	if len(got.Blocks) != 1 || got.Blocks[0] != (adminapi.SafeBlock{Network: "base", Number: seen.Number, Hash: seen.Hash, Time: seen.Time}) || got.RPC != "none" {
		t.Errorf("%+v", got)
	}
	if text := told(t, socket, "rpc"); !strings.Contains(text, "block 42 of 2026-11-20T12:00:00Z, "+seen.Hash) {
		t.Errorf("%s", text)
	}
	if o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, "rpc", "trust", "polygon"); o.Status == 0 || !strings.Contains(o.Stderr, "polygon") {
		t.Errorf("%d, %s%s", o.Status, o.Stdout, o.Stderr)
	}
	if text := told(t, socket, "rpc", "trust", "base"); !strings.Contains(text, "taken on trust") {
		t.Errorf("%s", text)
	}
	if b, err := store.SafeBlock(t.Context(), "base"); b != nil || err != nil {
		t.Errorf("%+v, %v", b, err)
	}
}
