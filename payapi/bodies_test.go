package payapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// malformed lists the endpoints that take a body, with the text of their refusal of other JSON.
var malformed = map[string]string{
	"POST /api-keys":                 keyFailed,
	"POST /wallets":                  "Invalid JSON body",
	"POST /v1/pay":                   "paymentRequiredHeader (base64) required",
	"POST /v1/quote":                 "paymentRequiredHeader (base64) required",
	"POST /v1/payments/{id}/receipt": "Invalid receipt",
}

// noObject lists bodies that every endpoint refuses.
var noObject = map[string]string{
	"space": " ", "tab": "\t", "carriage return": "\r", "newline": "\n", "line end": "\r\n", "all kinds of whitespace": "\n \t\r\n",
	"form feed": "\f", "vertical tab": "\v", "no-break space": "\u00a0", "line separator": "\u2028", "megabyte of spaces": strings.Repeat(" ", 1<<20),
	"byte order mark": "\ufeff", "object with a byte order mark": "\ufeff{}", "UTF-16": "{\x00}\x00",
	"two values": "{}{}", "two lines": "{}\n{}", "trailing garbage": "{}x", "trailing comma": "{},", "trailing nul": "{}\x00", "leading nul": "\x00{}",
	"nul": "\x00", "nul as space": "{\x00}", "nul in a text": "{\"label\":\"\x00\"}", "newline in a text": "{\"label\":\"\n\"}",
	"cut short": "{", "cut in a name": `{"lab`, "cut in a text": `{"label":"`, "no value": `{"label":}`, "comma at the end": `{"label":"x",}`,
	"single quotes": "{'label':'x'}", "bare name": "{label:1}", "comment": "{}//", "NaN": `{"x":NaN}`, "leading zero": `{"x":01}`,
	"null": "null", "true": "true", "number": "1", "text": `"{}"`, "array": "[]", "array of an object": "[{}]", "form": "label=x",
	"half a character": "{\"label\":\"\xe2\x82\"}", "half a character in an unknown member": "{\"x\":\"\xff\"}", "overlong": "{\"label\":\"\xc0\xaf\"}",
	"surrogate in UTF-8": "{\"label\":\"\xed\xa0\x80\"}", "not UTF-8 in a name": "{\"\xff\":1}",
	"nested for ever": `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", "open for ever": strings.Repeat(`{"x":`, 150_000),
	"twice": `{"network":"base","network":"base"}`, "twice, in other letters": `{"label":"x","l\u0061bel":"x"}`,
	"twice, once null": `{"network":null,"network":"base"}`, "twice, null at the end": `{"network":"base","network":null}`, "null twice": `{"key":null,"key":null}`,
	"unknown twice": `{"x":1,"x":1}`,
}

// object lists bodies that count as {}.
var object = map[string]string{
	"nothing": "", "object": "{}", "in whitespace": "\r\n\t {\r\n\t }\r\n\t ", "nulls": `{"label":null,"network":null,"paymentRequiredHeader":null,"receipt":null}`,
	"unknown": `{"x":{"y":[1,2,{"z":null}]},"":0}`, "other letter case": `{"LABEL":1,"Network":"x","Receipt":0}`, "below twice": `{"x":{"y":1,"y":2}}`,
	"deep": `{"x":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + "}", "many members": manyMembers(),
}

func manyMembers() string {
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, `,"m%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

// Every endpoint with a body reads it in the same way. The others ignore a body.
func TestBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.payingKey()
	empty := map[string]func(answer){
		"POST /api-keys": func(a answer) { a.is(201, "").want("label", "") },
		"POST /wallets":  func(a answer) { a.is(201, "").want("network", "base") },
		"POST /v1/pay": func(a answer) {
			a.is(400, "paymentRequiredHeader (base64) required").want("detail", "no usable payment requirement: nothing was given")
		},
		"POST /v1/quote":                 func(a answer) { a.is(400, "paymentRequiredHeader (base64) required") },
		"POST /v1/payments/{id}/receipt": func(a answer) { a.is(400, "Invalid receipt") },
	}
	with := 0
	for _, one := range contract().operations {
		if strings.HasPrefix(one.path, "/docs") || strings.HasPrefix(one.path, "/openapi") {
			continue // not purser's handlers
		}
		route, path := one.method+" "+one.path, strings.ReplaceAll(one.path, "{id}", uuid.NewString())
		bodies := maps.Clone(noObject)
		maps.Copy(bodies, object)
		if !one.body {
			want := w.call(one.method, path, key, nil)
			for name, body := range bodies {
				if a := w.call(one.method, path, key, body); a.status != want.status {
					t.Errorf("%s with %s: %d, without %d: %s", route, name, a.status, want.status, a.raw)
				}
			}
			continue
		}
		with++
		text, check := malformed[route], empty[route]
		if text == "" || check == nil {
			t.Errorf("%s is not in the table", route)
			continue
		}
		for name, body := range noObject {
			a := w.call(one.method, path, key, body)
			detail, _ := a.at("detail").(string)
			if a.status != 400 || a.at("error") != text || detail != "the body is not a JSON object" && !strings.Contains(name, "twice") ||
				strings.Contains(name, "twice") && detail != "a member of the body is there more than once" {
				t.Errorf("%s with %s: %d %s", route, name, a.status, a.raw)
			}
		}
		for name, body := range object {
			t.Log(route, name)
			check(w.call(one.method, path, key, body))
		}
		// Any Content-Type is allowed, and none too. Only pages of other sites are refused.
		for _, media := range []string{"application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "nonsense"} {
			check(w.call(one.method, path, key, "{}", "Content-Type", media))
			w.call(one.method, path, key, "\r", "Content-Type", media).is(400, text)
		}
		// A compressed body is not unpacked.
		w.call(one.method, path, key, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", "Content-Encoding", "gzip").is(400, text)
	}
	if with != len(malformed) {
		t.Errorf("%d endpoints take a body, %q are known", with, slices.Sorted(maps.Keys(malformed)))
	}
}

// The same bytes in chunks, without a length, are the same body.
func TestBodiesInChunks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey()
	for route := range malformed {
		_, path, _ := strings.Cut(strings.ReplaceAll(route, "{id}", uuid.NewString()), " ")
		request := func(chunks string) int {
			return rawStatus(t, w.url, "POST "+path+" HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+key+"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
		}
		none := w.call("POST", path, key, nil).status
		for chunks, want := range map[string]int{
			"0\r\n\r\n": none, "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n": none, "1\r\n\r\r\n0\r\n\r\n": 400, "1\r\n \r\n1\r\n\n\r\n0\r\n\r\n": 400,
			"zz\r\n": 400, "1\r\n{\r\n0\r\n\r\n": 400,
		} {
			if got := request(chunks); got != want {
				t.Errorf("%s with %q: %d, want %d", path, chunks, got, want)
			}
		}
	}
}
