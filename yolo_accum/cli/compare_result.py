"""``compare.json``: what a comparison found, as one object. This text is its format.

Paths are relative to the folder of the file. Numbers that do not exist are null. A *run* is one arm with one seed.
Column tables (``epochs``) are lists by the names of ``epochs.csv``, null where a cell is empty. ::

    format            1
    ok                false when a run failed; one that does not fit into the memory is a finding and leaves it true
    finished          false while runs are still missing (the file is written after every run)
    verdict           one sentence: that of the first entry of ``comparisons``, or why there is none
    settings          what all arms share: data, weights, model, train_images, val_images, class_names, epochs, imgsz,
                      batch, nbs, tail, window_length, updates, warmup_updates, margin_ap, confidence, seeds [int]
    options           all options of the base run by name, as in config.yaml
    reference         name of the arm that the others are compared with
    moments           [{name, update}]: the updates whose gradients are compared, 1-based: "first", "after warm-up", ...
    warnings          [text] of the comparison as a whole; those of a run stand with it
    arms              one entry an arm, in the order of the command line
      name            also the name of its folder
      label           for people: "8 x 8, bn" (micro-batch x window)
      changes         {option: value}: what differs from ``options``
      options         all options of the arm by name
      batch, window_length, images_per_update, norm, tail
      same_windows    whether its updates take the same images as those of the base options
      activations     "kept" or "checkpointed" (also: because they would not fit otherwise; then ``notes`` says so)
      notes           [text]
      summary         {metric: {mean, sd, num}} over the finished runs, for the twelve COCO numbers, images_per_s,
                      peak_memory_mib, wall_s; sd is null for one run
      per_class       [{name, id, boxes, AP, AP50}], means over the finished runs
      runs            one entry a seed
        seed
        status        "finished", "failed", "does not fit" or "missing" (not run yet)
        message       why it failed or does not fit, else null
        folder, log   "large/seed0" (a run folder as `train` makes it) and "large/seed0.log"
        updates_csv   "large/seed0/updates.csv": one row an attempted update; null where there is none
        epochs        epochs.csv by column: epoch (0-based), images, loss_box ..., AP, AP50 ..., train_s, images_per_s ...
        metrics       the twelve COCO numbers of the best weights
        per_class     [{name, id, boxes, AP, AP50}] of the best weights
        best_epoch    1-based
        last_epoch    the COCO numbers of the last epoch that was evaluated
        updates       {attempted, applied, skipped}; images_seen, images_dropped
        images_per_s, peak_memory_mib, wall_s (training and evaluation, also over interruptions)
        run_card      content of run_card.json
        warnings      [text]: lines of the log that begin with "warning:" or "notice:", without that word
    comparisons       one entry an arm that is not the reference
      arm, reference
      same_windows    whether both follow the same windows; else updates cannot be compared one by one
      differences     {metric: {mean, low, high, sd, num, values [by seed]}}: arm minus reference, paired over the seeds
                      that both finished; low..high is the confidence interval, null for one pair. Metrics as in
                      ``summary``
      per_class       [{name, AP: {mean, low, high, ...}}]
      verdict         {kind, metric "AP", sentence}; kind is "equal", "better", "worse", "not enough runs" or "no runs"
      loss            null, or {num_updates, by_seed [{seed, largest_relative_difference, at_update,
                      relative_differences [..]}], largest}: losses of the first updates, |arm - reference| / |reference|
      gradients       [{seed, moment, update, overall, parts}]: gradients of one window before clipping, the arm's
                      against the reference's: overall {cosine, relative_difference, norm_ratio, norm, reference_norm},
                      parts {"stem": {the same}, ...} in the order of the network
    verify            null, or where differences come from on the start weights, one window of nbs images: the result of
                      `verify` without run and files: {ok, settings, checks, large_batches, comparisons}
    files             {"compare": "compare.json", "table": "compare.csv"}
"""
