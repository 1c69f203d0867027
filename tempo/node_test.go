package tempo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/x402"
)

// node is a scripted RPC of Tempo with a block each second. Block 0 is 10,000 s before now.
type node struct {
	t           *testing.T
	final, head uint64
	used        uint64 // the block that has the transaction; 0: none
	receipt     []entry
	// Its lies.
	withholdsRange, withholdsAll bool // logs
	emptyBlooms                  bool
	brokenAt, otherAt            uint64 // a header that names another parent, or is another one
	most                         uint64 // blocks that one question for logs may have; 0: any
	outgoing                     bool   // no log is of a transfer to a wallet
	noTokens                     bool
	gas                          uint64 // that a transaction takes; 0: it would fail
	has                          uint64 // that each account has

	mu    *sync.Mutex
	calls map[string]int
}

// entry is a log.
type entry struct {
	address x402.Address
	topics  []string
	amount  uint64
}

const (
	genesis = 10_000 // seconds before now
	tx      = "0x1111111111111111111111111111111111111111111111111111111111111111"
)

func at(d time.Duration) uint64 { return uint64(genesis + int64(d/time.Second)) }

func (n *node) hash(number uint64) string {
	if n.otherAt > 0 && number >= n.otherAt {
		return fmt.Sprintf("0x%063xf", number)
	}
	return fmt.Sprintf("0x%063xe", number)
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

func (n *node) header(number uint64) any {
	if number > n.head {
		return nil
	}
	var filter [256]byte
	if number == n.used && !n.emptyBlooms {
		for _, l := range n.receipt {
			for _, item := range append([]string{"0x" + fmt.Sprintf("%x", l.address.Bytes())}, l.topics...) {
				hash := x402.Keccak256(unhex(n.t, item))
				for i := 0; i < 6; i += 2 {
					bit := (int(hash[i])<<8 | int(hash[i+1])) & 2047
					filter[255-bit/8] |= 1 << (bit % 8)
				}
			}
		}
	}
	parent := n.hash(number - 1)
	if number == n.brokenAt {
		parent = fmt.Sprintf("0x%064x", 7)
	}
	return map[string]any{
		"number": hexNumber(number), "hash": n.hash(number), "parentHash": parent, "timestamp": hexNumber(uint64(now.Unix()) - genesis + number),
		"logsBloom": fmt.Sprintf("0x%x", filter), "baseFeePerGas": "0x3b9aca00",
	}
}

func (n *node) logs() []any {
	var list []any
	for i, l := range n.receipt {
		list = append(list, map[string]any{
			"address": l.address, "topics": l.topics, "data": fmt.Sprintf("0x%064x", l.amount), "blockNumber": hexNumber(n.used), "blockHash": n.hash(n.used),
			"transactionHash": tx, "logIndex": hexNumber(uint64(i)), "removed": false,
		})
	}
	return list
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string
		Params []json.RawMessage
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &call)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[call.Method]++
	result, refusal := n.answer(call.Method, call.Params)
	answer := map[string]any{"jsonrpc": "2.0", "id": 1}
	if refusal != "" {
		answer["error"] = map[string]any{"code": -32000, "message": refusal}
	} else {
		answer["result"] = result
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (n *node) answer(method string, params []json.RawMessage) (result any, refusal string) {
	switch method {
	case "eth_chainId":
		return hexNumber(4217), ""
	case "eth_getBlockByNumber":
		var tag string
		_ = json.Unmarshal(params[0], &tag)
		switch tag {
		case "finalized":
			return n.header(n.final), ""
		case "latest":
			return n.header(n.head), ""
		}
		number, err := strconv.ParseUint(strings.TrimPrefix(tag, "0x"), 16, 64)
		if err != nil {
			return nil, "no such tag"
		}
		return n.header(number), ""
	case "eth_estimateGas":
		if n.gas == 0 {
			return nil, "execution reverted"
		}
		return hexNumber(n.gas), ""
	case "eth_call":
		if n.noTokens {
			return "0x", ""
		}
		if bytes.Contains(params[0], []byte("0x70a08231")) {
			return fmt.Sprintf("0x%064x", n.has), ""
		}
		return fmt.Sprintf("0x%064x", 6), ""
	case "eth_getLogs":
		var q struct {
			FromBlock, ToBlock, BlockHash string
			Topics                        []any
		}
		_ = json.Unmarshal(params[0], &q)
		from, _ := strconv.ParseUint(strings.TrimPrefix(q.FromBlock, "0x"), 16, 64)
		to, _ := strconv.ParseUint(strings.TrimPrefix(q.ToBlock, "0x"), 16, 64)
		if n.most > 0 && to-from >= n.most {
			return nil, "too many blocks"
		}
		hit := q.BlockHash == n.hash(n.used) || q.BlockHash == "" && !n.withholdsRange && from <= n.used && n.used <= to
		if n.used == 0 || !hit || n.withholdsAll || n.outgoing && len(q.Topics) == 3 {
			return []any{}, ""
		}
		var found []any
		for i, l := range n.logs() {
			topic, one := q.Topics[0].(string)
			topics := n.receipt[i].topics
			if len(topics) == 4 || !one || topic == topics[0] { // to the wallet, too: a client must look at what it gets
				found = append(found, l)
			}
		}
		return found, ""
	case "eth_getTransactionReceipt":
		return map[string]any{"transactionHash": tx, "blockHash": n.hash(n.used), "logs": n.logs()}, ""
	}
	return nil, "no such method"
}

// open serves the node, and returns a Client of it.
func (n *node) open() *tempo.Client {
	n.t.Helper()
	n.calls, n.mu = map[string]int{}, new(sync.Mutex)
	server := httptest.NewServer(n)
	c, err := tempo.New(chain.Options{URL: server.URL})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c
}
