package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/redis/go-redis/v9"
)

// defaults does one transaction, one loop of WATCH or one pipeline with a client as its documentation begins with.
func defaults(host, port, kind, prefix string) error {
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(host, port)})
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	options := client.Options()
	say(map[string]any{"client": "go-redis " + version(), "settings": map[string]string{
		"DialTimeout": options.DialTimeout.String(), "ReadTimeout": options.ReadTimeout.String(),
		"WriteTimeout": options.WriteTimeout.String(), "MaxRetries": fmt.Sprint(options.MaxRetries),
		"MinRetryBackoff": options.MinRetryBackoff.String(), "MaxRetryBackoff": options.MaxRetryBackoff.String(),
		"Protocol": fmt.Sprint(options.Protocol),
	}})
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	answers, err := once(client, kind, prefix+":x", prefix+":y")
	if err != nil {
		say(map[string]any{"ok": false, "heard": fmt.Sprintf("%T: %v", err, err)})
	} else {
		say(map[string]any{"ok": true, "heard": answers})
	}
	return nil
}

func say(line any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func once(client *redis.Client, kind, x, y string) (string, error) {
	var first, second *redis.IntCmd
	both := func(pipe redis.Pipeliner) error {
		first, second = pipe.Incr(ctx, x), pipe.Incr(ctx, y)
		return nil
	}
	switch kind {
	case "multi":
		_, err := client.TxPipelined(ctx, both)
		return fmt.Sprint(first.Val(), second.Val()), err
	case "pipeline":
		_, err := client.Pipelined(ctx, both)
		return fmt.Sprint(first.Val(), second.Val()), err
	case "watch":
		return watchLoop(client, x, y)
	}
	return "", fmt.Errorf("there is no kind %q", kind)
}

// watchLoop is the loop of the documentation.
func watchLoop(client *redis.Client, x, y string) (string, error) {
	var sold *redis.IntCmd
	attempt := func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, x).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, x, value+1, 0)
			sold = pipe.Incr(ctx, y)
			return nil
		})
		return err
	}
	for {
		err := client.Watch(ctx, attempt, x)
		if errors.Is(err, redis.TxFailedErr) {
			continue
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(sold.Val()), nil
	}
}
