package proxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxLine bounds what is kept of a line of a stream. The beginning of a longer line decides.
	maxLine = 256 << 10
	// maxOpenLine bounds a line that is looked at before its end has come.
	maxOpenLine = 1 << 10
)

// lastEvent follows a stream of events, and tells whether the last one says that no more come. Clients leave there,
// whatever the connection does. An event that comes later shows that it was not the last one.
type lastEvent struct {
	answers  func(data []byte) bool // tells the last event by its data, and alone; nil: by what providers write
	lines    bool                   // a JSON value a line, instead of server-sent events
	boundary []byte                 // the last delimiter of a multipart body; nil: it is none

	line []byte // that has not ended yet, or its first maxLine bytes
	name string // of the event
	next bool   // the event has a name, and nothing that was heard yet
	data []byte // of the event, at most maxLine bytes
	ends bool
	over bool // nothing can come behind it

	coded    bool   // each line begins with a code and a colon
	started  bool   // the first line has come
	returned bool   // the last line has ended with a carriage return
	choices  uint64 // that have begun, by index
	finished uint64 // of them
}

// lastEventOf returns what follows an answer; nil: the answer is no stream with an end of its own, or it cannot be read.
func lastEventOf(resp *http.Response) *lastEvent {
	kind, parameters, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if coding := resp.Header.Get("Content-Encoding"); err != nil || coding != "" && !strings.EqualFold(coding, "identity") {
		return nil
	}
	switch _, name, _ := strings.Cut(kind, "/"); {
	case kind == "text/event-stream":
		return new(lastEvent)
	case resp.ContentLength >= 0: // doors keep pieces of such an answer back
		return nil
	case resp.Header.Get("X-Vercel-Ai-Data-Stream") == "v1":
		return &lastEvent{lines: true, coded: true}
	case slices.Contains(lineFormats, strings.TrimPrefix(name, "x-")):
		return &lastEvent{lines: true}
	case strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != "":
		return &lastEvent{boundary: []byte("--" + parameters["boundary"] + "--")}
	}
	return nil
}

// lineFormats lists the subtypes of streams with a JSON value a line, without x-.
var lineFormats = []string{"ndjson", "jsonl", "jsonlines", "json-lines", "json-seq", "stream+json", "ld+ndjson"}

// sees takes the next piece of the stream. It reports whether the last event so far is the stream's own end.
func (e *lastEvent) sees(piece []byte) bool {
	if e.boundary != nil {
		return e.seesPart(piece)
	}
	for len(piece) > 0 && !e.over {
		returned := e.returned
		if e.returned = false; returned && piece[0] == '\n' {
			piece = piece[1:]
			continue
		}
		end := e.lineEnd(piece)
		whole := end >= 0
		if !whole {
			end = len(piece)
		}
		e.line = append(e.line, piece[:min(end, maxLine-len(e.line))]...)
		if !whole {
			break
		}
		if !e.started {
			e.started, e.line = true, bytes.TrimPrefix(e.line, []byte("\ufeff"))
		}
		e.take(e.line)
		e.line, e.returned, piece = e.line[:0], piece[end] == '\r', piece[end+1:]
	}
	return e.over || e.open() || e.ends && !e.begun()
}

// begun reports whether a further event has begun behind the stream's own end, and may be one that takes that back.
func (e *lastEvent) begun() bool {
	line := bytes.Trim(e.line, " \t\x1e\r")
	return e.next || len(line) > 0 && (e.lines || line[0] != ':')
}

// lineEnd returns where a line ends; -1: it goes on. Lines of server-sent events may end with a carriage return.
func (e *lastEvent) lineEnd(piece []byte) int {
	if e.lines {
		return bytes.IndexByte(piece, '\n')
	}
	return bytes.IndexAny(piece, "\r\n")
}

// open reports whether a line whose end has not come yet is the stream's own end.
func (e *lastEvent) open() bool {
	if n := len(e.line); n == 0 || n > maxOpenLine || e.line[n-1] != '}' && e.line[n-1] != ']' {
		return false
	}
	data := e.line
	switch {
	case e.coded:
		return false
	case !e.lines:
		field, value := cutField(e.line)
		if field != "data" || len(e.data) > 0 {
			return false
		}
		data = value
	}
	word := e.wordOf(e.name, data)
	return word == wordLast || word == wordOver
}

// seesPart looks for the delimiter behind the last part of a multipart body.
func (e *lastEvent) seesPart(piece []byte) bool {
	e.line = append(e.line, piece...)
	e.over = e.over || bytes.Contains(e.line, e.boundary)
	e.line = append(e.line[:0], e.line[max(0, len(e.line)-len(e.boundary)):]...)
	return e.over
}

// take takes a line.
func (e *lastEvent) take(line []byte) {
	if e.lines {
		switch line = bytes.Trim(line, " \t\r\x1e"); {
		case len(line) == 0:
		case e.coded && bytes.HasPrefix(line, []byte("d:")):
			e.hear(wordLast)
		case e.coded:
			e.hear(wordMore)
		default:
			e.hear(e.wordOf("", line))
		}
		return
	}
	switch field, value := cutField(line); field {
	case "":
		if len(line) > 0 { // a comment
			return
		}
		if bytes.IndexByte(e.data, '\n') >= 0 || len(e.data) == 0 && e.name != "" {
			e.hear(e.wordOf(e.name, e.data))
		}
		e.name, e.data, e.next = "", e.data[:0], false
	case "event":
		e.name = string(value[:min(len(value), maxOpenLine)])
		e.next = !slices.Contains(asideNames, e.name)
	case "data":
		first := len(e.data) == 0
		if !first {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value[:min(len(value), max(0, maxLine-len(e.data)))]...)
		if first {
			e.next = false
			e.hear(e.wordOf(e.name, e.data))
		}
	}
}

// cutField parts a line of server-sent events.
func cutField(line []byte) (name string, value []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	if len(field) > len("event") {
		return "another", nil
	}
	return string(field), bytes.TrimPrefix(value, []byte(" "))
}

func (e *lastEvent) hear(w eventWord) {
	switch w {
	case wordNothing:
	case wordMore:
		e.ends = false
	case wordLast:
		e.ends = true
	case wordOver:
		e.over = true
	}
}

// eventWord holds the meaning of an event for its stream.
type eventWord int

const (
	wordMore    eventWord = iota
	wordNothing           // such as a ping
	wordLast              // it is the last event of one answer
	wordOver              // nothing comes behind it
)

// Names and types of events.
var (
	// lastNames names events that are the last ones, whatever their data.
	lastNames = []string{"done", "end", "close", "complete", "completed", "finished"}
	// lastTypes lists the types of last events: Anthropic's, those of OpenAI's Responses, images, speech and
	// transcripts, Cohere's, Gemini's interactions, those of AI SDK's and AG-UI's streams, Dify's, and Gradio's.
	lastTypes = []string{
		"message_stop",
		"response.completed", "response.failed", "response.incomplete", "response.cancelled",
		"image_generation.completed", "image_edit.completed", "speech.audio.done", "transcript.text.done",
		"message-end", "stream-end", "interaction.complete", "interaction.completed",
		"finish", "RUN_FINISHED", "message_end", "workflow_finished", "done",
		"process_completed",
	}
	// asideNames name events that say nothing of the stream.
	asideNames = []string{"ping", "heartbeat", "keepalive", "keep-alive"}
)

// lastWords holds what events say of their stream.
type lastWords struct {
	Type      string `json:"type"`
	Event     string `json:"event"`
	EventType string `json:"event_type"`
	Message   string `json:"msg"` // Gradio

	Done       bool    `json:"done"`           // Ollama
	IsFinished bool    `json:"is_finished"`    // Cohere, version 1
	Stop       bool    `json:"stop"`           // llama.cpp
	Generated  *string `json:"generated_text"` // Text Generation Inference
	Result     struct {
		Final   bool            `json:"final"`   // A2A
		Content json.RawMessage `json:"content"` // MCP
	} `json:"result"` // in JSON-RPC
	Choices []struct {
		Index        int    `json:"index"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"` // chat completions
	Used       json.RawMessage `json:"usage"`
	HasNext    *bool           `json:"hasNext"` // GraphQL
	Candidates []struct {
		FinishReason string `json:"finishReason"`
	} `json:"candidates"` // Gemini
	Usage json.RawMessage `json:"usageMetadata"`
}

// wordOf reads an event by its name, which may be empty, and its data.
func (e *lastEvent) wordOf(name string, data []byte) eventWord {
	data = bytes.TrimSpace(data)
	switch {
	case e.answers != nil && len(data) > 0:
		if e.answers(data) {
			return wordOver
		}
		return wordMore
	case string(data) == "[DONE]", string(data) == `"[DONE]"`:
		return wordOver
	case string(data) == "DONE":
		return wordLast
	case slices.Contains(lastNames, name) || slices.Contains(lastTypes, name):
		return wordLast
	case slices.Contains(asideNames, name) || len(data) == 0:
		return wordNothing
	case data[0] != '{':
		return wordMore
	}
	var says lastWords
	if _, broken := json.Unmarshal(data, &says).(*json.SyntaxError); broken { //nolint:errorlint // Unmarshal returns it bare; members of other types leave the rest
		says = lastWords{Type: typeOf(data)}
	}
	switch {
	case slices.Contains(lastTypes, says.Type), slices.Contains(lastTypes, says.Event), slices.Contains(lastTypes, says.EventType), slices.Contains(lastTypes, says.Message),
		says.Done, says.IsFinished, says.Stop, says.Result.Final, says.Result.Content != nil, says.Generated != nil, e.chosen(says),
		says.HasNext != nil && !*says.HasNext, len(says.Candidates) > 0 && says.finished():
		return wordLast
	case slices.Contains(asideNames, says.Type), says.Usage != nil && len(says.Candidates) == 0,
		says.Used != nil && e.choices != 0 && len(says.Choices) == 0:
		return wordNothing
	}
	return wordMore
}

// chosen notes the choices of a chat completion that an event tells of. It reports whether it has finished the last
// one of those that have begun: providers leave [DONE] out, or the connection open behind it.
func (e *lastEvent) chosen(says lastWords) bool {
	for _, c := range says.Choices {
		bit := uint64(1) << min(max(c.Index, 0), 63)
		e.choices |= bit
		if e.finished |= bit; c.FinishReason == "" || c.Index > 62 {
			e.finished &^= bit
		}
	}
	return len(says.Choices) > 0 && e.finished == e.choices
}

func (w lastWords) finished() bool {
	for _, c := range w.Candidates {
		if c.FinishReason == "" {
			return false
		}
	}
	return true
}

// typeOf returns the type that an object begins with, whose end was cut off; "": it begins with another member.
func typeOf(data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data[:min(len(data), maxOpenLine)]))
	for _, want := range []json.Token{json.Delim('{'), "type"} {
		if got, err := d.Token(); err != nil || got != want {
			return ""
		}
	}
	got, _ := d.Token()
	text, _ := got.(string)
	return text
}
